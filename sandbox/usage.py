"""What a process and all below it use at this moment, from /proc. `process` looks every 50 ms."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FILE_BYTES = 1024  # what a file without content costs the kernel: no limit of a process or folder counts it
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """memory_bytes: resident and no file's, of the living, and what the names of files cost; cpu_seconds: of the living
    and of those they waited for."""

    memory_bytes: int
    cpu_seconds: float
    processes: int


def measure_usage(pid: int, folder: str) -> Usage:
    """Of `pid` and its descendants, with the files in its `folder`. Processes that end meanwhile are left out."""
    memory = processes = 0
    cpu = 0.0
    waiting, seen = [pid], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        with suppress(OSError):
            resident, shared = (int(word) for word in Path(f"/proc/{one}/statm").read_text().split()[1:3])
            memory += (resident - shared) * PAGE
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            cpu += sum(int(field) for field in fields[11:15]) / TICKS  # utime, stime, cutime, cstime
            processes += 1
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
    with suppress(OSError):
        files = os.statvfs(f"/proc/{pid}/root{folder}")
        memory += (files.f_files - files.f_ffree) * FILE_BYTES
    return Usage(memory, cpu, processes)
