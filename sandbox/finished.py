"""How a program in the sandbox ended."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.limits import KIB, MIB, Limits
from sandbox.process import Program

NO_MEMORY = ("MemoryError", "annot allocate memory")
MOST_DETAIL = 200


@dataclass(frozen=True, slots=True)
class Finished:
    """exit_code: 0 to 255, 128 + n when signal n ended it, 137 when the sandbox did.

    timed_out: it took too long, on the clock or of processor time. out_of_memory: its processes together used too much,
    or it failed because it was refused more. truncated: it printed more than allowed and was ended; the beginning is
    here. seconds: on the clock, with the sandbox's own start.
    """

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool
    out_of_memory: bool
    truncated: bool
    seconds: float
    limits: Limits

    @property
    def ran(self) -> bool:
        """It ended by itself, within its limits, and with exit code 0."""
        return self.exit_code == 0 and not (self.timed_out or self.out_of_memory or self.truncated)

    @property
    def failure(self) -> str | None:
        """Why it did not run, as a short sentence without a full stop; None when it ran."""
        if self.ran:
            return None
        if self.timed_out:
            return f"took longer than {self.limits.seconds:g} s, or {self.limits.cpu_seconds:g} s of processor time"
        if self.out_of_memory:
            return f"used more than {self.limits.memory_bytes // MIB} MiB of memory"
        if self.truncated:
            return f"printed more than {self.limits.output_bytes / KIB:g} KiB"
        last = self.last_line[:MOST_DETAIL]
        return f"ended with exit code {self.exit_code}" + (f": {last}" if last else "")

    @property
    def last_line(self) -> str:
        """Of standard error: for Python the exception."""
        return (self.stderr.strip().splitlines() or [""])[-1]


def finish(program: Program) -> Finished:
    """What an ended program leaves. Raises SandboxMissing when it never began."""
    stdout = program.outputs["stdout"].text if "stdout" in program.outputs else ""
    stderr = program.outputs["stderr"].text
    code = program.exit_code
    last = (stderr.strip().splitlines() or [""])[-1]
    return Finished(
        exit_code=code,
        stdout=stdout,
        stderr=stderr,
        timed_out=program.timed_out,
        out_of_memory=program.out_of_memory or (code != 0 and any(part in last for part in NO_MEMORY)),
        truncated=program.truncated,
        seconds=program.seconds,
        limits=program.limits,
    )
