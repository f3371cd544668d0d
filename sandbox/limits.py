"""What one call of the sandbox may use."""

from __future__ import annotations

import math
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
MOST_DESCRIPTORS = 64  # of one process


@dataclass(frozen=True, slots=True)
class Limits:
    """Raises ValueError for a limit outside its range.

    seconds: time on the clock, above 0, up to 3600.
    cpu_seconds: processor time of all its processes together, above 0, up to 3600.
    memory_bytes: of one process (address space), and of all together (resident, every 50 ms); 32 MiB to 64 GiB.
    disk_bytes: everything that it has written and not removed, in memory; 64 KiB to 16 GiB.
    output_bytes: of standard output and of standard error, each; 1 to 1 GiB. A program that prints more is ended.
    processes: processes and threads at once, 1 to 1000.
    """

    seconds: float = 30.0
    cpu_seconds: float = 30.0
    memory_bytes: int = 256 * MIB
    disk_bytes: int = 32 * MIB
    output_bytes: int = 256 * KIB
    processes: int = 16

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("seconds", self.seconds, 0, 3600),
            ("cpu_seconds", self.cpu_seconds, 0, 3600),
            ("memory_bytes", self.memory_bytes, 32 * MIB - 1, 64 * KIB * MIB),
            ("disk_bytes", self.disk_bytes, 64 * KIB - 1, 16 * KIB * MIB),
            ("output_bytes", self.output_bytes, 0, KIB * MIB),
            ("processes", self.processes, 0, 1000),
        ):
            if not low < value <= high:
                raise ValueError(f"{name} is {value}; it must be above {low} and at most {high}")

    def as_rlimits(self) -> list[str]:
        """Options of prlimit for the program and all that it starts; none can be raised again from inside."""
        # The watch over all processes together comes first; this one ends a process that the watch misses.
        cpu = math.ceil(self.cpu_seconds) + 1
        return [
            f"--as={self.memory_bytes}",
            f"--cpu={cpu}:{cpu + 1}",
            f"--fsize={self.disk_bytes}",
            f"--nproc={self.processes + 1}",  # bubblewrap's own first process counts too
            f"--nofile={MOST_DESCRIPTORS}",
            "--core=0",
            "--memlock=0",
            "--msgqueue=0",
            "--sigpending=256",
        ]
