"""What a process and all below it use at this moment, from /proc. `process` looks every 50 ms."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.limits import MOST_DESCRIPTORS

SOCKET_BYTES, PIPE_BYTES = 256 * 1024, 64 * 1024  # what the buffer of each holds at most, its size as it is born with
SOCKET, PIPE = "socket:", "pipe:"  # how names of their descriptors begin
FILE_BYTES = 1024  # what a file without content costs the kernel: no limit of a process or folder counts it
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """memory_bytes: resident and no file's, of the living, and what their sockets, pipes and the names of files may
    cost; cpu_seconds: of the living and of those they waited for."""

    memory_bytes: int
    cpu_seconds: float
    processes: int


def measure_usage(pid: int, folder: str) -> Usage:
    """Of `pid` and its descendants, with the files in its `folder`. Processes that end meanwhile are left out."""
    memory = processes = 0
    cpu = 0.0
    waiting, seen, buffers = [pid], set(), set[str]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            cpu += sum(int(field) for field in fields[11:15]) / TICKS  # utime, stime, cutime, cstime
            processes += 1
            own = 0
            # The process's own files are those of its first thread: once that has ended they say nothing of the others.
            # Memory is the same for all of them; descriptors may be a thread's own.
            for task in Path(f"/proc/{one}/task").iterdir():
                with suppress(OSError):
                    resident, shared = (int(word) for word in (task / "statm").read_text().split()[1:3])
                    own = max(own, (resident - shared) * PAGE)
                    buffers |= _find_buffers(task)
                    waiting += [int(child) for child in (task / "children").read_text().split()]
            memory += own
    memory += sum(SOCKET_BYTES if name.startswith(SOCKET) else PIPE_BYTES for name in buffers)
    with suppress(OSError):
        files = os.statvfs(f"/proc/{pid}/root{folder}")
        memory += (files.f_files - files.f_ffree) * FILE_BYTES
    return Usage(memory, cpu, processes)


def _find_buffers(task: Path) -> set[str]:
    """Names of the sockets and pipes that the thread has open, each the same in all that share it."""
    names = set()
    try:
        for descriptor in (task / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                names.add(str(descriptor.readlink()))
    except PermissionError:  # it has hidden them: as many as it may have
        return {f"{SOCKET}{task.name}/{number}" for number in range(MOST_DESCRIPTORS)}
    except OSError:  # it has ended
        pass
    return {name for name in names if name.startswith((SOCKET, PIPE))}
