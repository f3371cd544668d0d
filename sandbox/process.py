"""One program behind the walls: started, watched, ended with all that it started. `run` and `programs` use it.

A thread may call this beside others: nothing runs between fork and exec but C, each call has descriptors and a user id
of its own, and nothing is written to the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.errors import SandboxError, SandboxMissing
from sandbox.limits import Limits
from sandbox.machine import Machine, explain, pick_user
from sandbox.syscalls import write_filter
from sandbox.usage import measure_usage
from sandbox.walls import BOX, PASSWD, Descriptors, build_command

TICK = 0.05  # seconds between two looks at what the processes use
GONE_WITHIN = 30.0  # seconds for the kernel to end killed processes, on a machine with much else to do
KILLED = 128 + signal.SIGKILL
CHUNK = 65536


class Output:
    """What comes out of one pipe: the first `limit` bytes are kept, and `full` says that there were more."""

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.limit = limit
        self.kept = bytearray()
        self.full = False

    def read(self) -> bool:
        """Takes what is there, at most one chunk; False when nobody can write any more."""
        try:
            chunk = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return True
        room = self.limit - len(self.kept)
        self.full = self.full or len(chunk) > room
        self.kept += chunk[:room]
        return bool(chunk)

    def read_rest(self) -> None:
        """After the last writer is gone: what a pipe holds, which is little."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.descriptor, CHUNK):
                room = self.limit - len(self.kept)
                self.full = self.full or len(chunk) > room
                self.kept += chunk[:room]

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", errors="replace")


class Program:
    """A context manager: on leaving it, every process of the program is dead and every descriptor closed.

    `stdin` and `stdout` are descriptors of the caller, who closes them; without `stdout` the output is kept. Raises
    SandboxMissing or SandboxError where the program cannot be started.
    """

    def __init__(
        self,
        machine: Machine,
        command: Sequence[str],
        *,
        limits: Limits,
        files: Mapping[str, bytes],
        stdin: int,
        stdout: int | None = None,
    ) -> None:
        self.limits = limits
        self.timed_out = self.out_of_memory = False
        self.outputs: dict[str, Output] = {}
        self.started = time.monotonic()
        self.seconds = 0.0
        self._over = self._killed = False
        self._inside: int | None = None  # pidfd of pid 1 of the sandbox
        self._inside_pid = 0
        self._stack = ExitStack()
        try:
            self._start(machine, command, files, stdin, stdout)
        except BaseException as error:
            self._stack.close()
            if isinstance(error, OSError):
                raise SandboxError(f"bubblewrap could not be started: {error}") from error
            raise

    def _start(
        self, machine: Machine, command: Sequence[str], files: Mapping[str, bytes], stdin: int, stdout: int | None
    ) -> None:
        user = pick_user()
        with ExitStack() as given:  # descriptors for the program alone
            stderr = self._pipe("stderr", given, user)
            if stdout is None:
                stdout = self._pipe("stdout", given, user)
            status_read, status_fd = os.pipe()
            self._stack.callback(os.close, status_read)
            given.callback(os.close, status_fd)
            self._status = Output(status_read, 65536)
            held = [(hold(content, given), name) for name, content in files.items()]
            passwd_fd, filter_fd = hold(PASSWD, given), hold(write_filter(), given)
            own = Descriptors(passwd=passwd_fd, filter=filter_fd, status=status_fd)
            full = build_command(machine, command, limits=self.limits, files=held, own=own)
            self._process = subprocess.Popen(  # noqa: S603 - untrusted by purpose, behind the walls
                full,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(status_fd, passwd_fd, filter_fd, *(descriptor for descriptor, _ in held)),
                env={},  # pid 1 would show it to the program
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                start_new_session=True,
            )
        try:
            self._ended_fd = os.pidfd_open(self._process.pid)
        except OSError as error:
            self._process.kill()
            self._process.wait()
            raise SandboxMissing(f"Linux 5.14 or newer is needed: {error}") from error
        self._stack.callback(os.close, self._ended_fd)

    def _pipe(self, name: str, given: ExitStack, user: int | None) -> int:
        read, write = os.pipe()
        self._stack.callback(os.close, read)
        given.callback(os.close, write)
        if user is not None:
            os.fchown(write, user, user)  # /dev/stdout can be opened again only by the pipe's owner
        self.outputs[name] = Output(read, self.limits.output_bytes)
        return write

    def readers(self) -> list[tuple[int, Callable[[], bool]]]:
        """Descriptors to wait for, with what to do then; one that returns False has nothing more to say."""
        outputs = [(output.descriptor, output.read) for output in self.outputs.values()]
        return [*outputs, (self._status.descriptor, self._read_status), (self._ended_fd, self._note_end)]

    def _note_end(self) -> bool:
        self._process.wait()
        return False

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    @property
    def truncated(self) -> bool:
        return any(output.full for output in self.outputs.values())

    @property
    def broke_a_limit(self) -> bool:
        return self.timed_out or self.out_of_memory or self.truncated

    def _read_status(self) -> bool:
        more = self._status.read()
        if self._inside is None and (pid := self._told("child-pid")) and not self.ended:
            with suppress(OSError):
                inside = os.pidfd_open(pid)
                # Until bubblewrap's end is waited for, a child of its is this one and no later owner of the number.
                if _parent_of(pid) == self._process.pid:
                    self._inside, self._inside_pid = inside, pid
                    self._stack.callback(os.close, inside)
                else:
                    os.close(inside)
        return more

    def _told(self, name: str) -> int | None:
        """A number from bubblewrap's status, a JSON object a line."""
        for line in bytes(self._status.kept).split(b"\n")[:-1]:
            said = json.loads(line)
            if name in said:
                return int(said[name])
        return None

    def check_usage(self) -> None:
        """Memory and processor time of all its processes, against the limits."""
        if self._inside is None or self.ended:
            return
        used = measure_usage(self._inside_pid, BOX)
        self.out_of_memory = self.out_of_memory or used.memory_bytes > self.limits.memory_bytes
        self.timed_out = self.timed_out or used.cpu_seconds > self.limits.cpu_seconds

    def end(self) -> None:
        """Kills what still runs and waits until all of it is gone. Raises SandboxError when it does not go."""
        if self._over:
            return
        self._killed = not self.ended
        if self._inside is None and not self.ended:  # bubblewrap tells its child's number within milliseconds
            _wait_for(self._status.descriptor, 1.0)
            self._read_status()
        if self._inside is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inside, signal.SIGKILL)
        elif not self.ended:
            self._process.kill()
        try:
            self._process.wait(GONE_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise SandboxError("bubblewrap does not end") from None
        # With its pid 1 a PID namespace ends, and pid 1 is gone when everything in it is.
        if self._inside is not None and not _wait_for(self._inside, GONE_WITHIN):
            raise SandboxError("processes in the sandbox do not end")
        self.seconds = time.monotonic() - self.started
        for output in (*self.outputs.values(), self._status):
            output.read_rest()
        self._over = True

    @property
    def exit_code(self) -> int:
        """0 to 255; 128 + n for signal n. Raises SandboxMissing when the program never began, SandboxError
        when somebody else ended it."""
        told = self._told("exit-code")
        if told is not None:
            return told
        if self._killed:
            return KILLED
        if self._process.returncode in (KILLED, -signal.SIGKILL):
            raise SandboxError("bubblewrap was killed, although no program in the sandbox can do that")
        raise explain(self.outputs["stderr"].text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            self._stack.close()


def watch(main: Program, *others: Program) -> None:
    """Waits until `main` has ended, or one of them broke a limit; ends them all."""
    programs = (main, *others)
    deadline = main.started + main.limits.seconds
    with selectors.DefaultSelector() as selector:
        for program in programs:
            for descriptor, read in program.readers():
                selector.register(descriptor, selectors.EVENT_READ, read)
        tick = time.monotonic() + TICK
        while not main.ended and not any(program.broke_a_limit for program in programs):
            now = time.monotonic()
            if now >= deadline:
                main.timed_out = True
            if now >= tick:
                for program in programs:
                    program.check_usage()
                tick = now + TICK
            for key, _ in selector.select(max(0.0, min(tick, deadline) - time.monotonic())):
                if not key.data():
                    selector.unregister(key.fd)
    for program in programs:
        program.end()


def hold(content: bytes, given: ExitStack) -> int:
    """A descriptor to read `content` from, which nobody can write to."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    given.callback(os.close, descriptor)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _wait_for(descriptor: int, seconds: float) -> bool:
    """Whether it can be read from within that time; a pidfd can when its process is gone."""
    poll = select.poll()  # select() refuses descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _parent_of(pid: int) -> int:
    """Raises OSError when there is no such process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
