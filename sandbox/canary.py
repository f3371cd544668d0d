"""Tries the walls before the first program is let in: once in each process, and for `manage.py sandbox check`.

What holds is shown by trying, not by reading settings: a file outside, the network, writing, privileges, and each
limit.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.errors import SandboxError, SandboxMissing
from sandbox.limits import KIB, MIB, Limits
from sandbox.machine import find_machine
from sandbox.unchecked import run_unchecked

# Generous in time: a loaded machine must not look like a broken wall.
FIRST = Limits(seconds=60, cpu_seconds=30, memory_bytes=96 * MIB, disk_bytes=MIB, processes=4)
FLOOD = Limits(seconds=60, cpu_seconds=30, output_bytes=4 * KIB)
SLEEP = Limits(seconds=0.3)
TRIES = """
import json, os, socket, sys

secret, port, local, memory, disk, processes = json.loads(sys.stdin.read())

TOPS = "", "/usr/bin", "/etc", "/dev"

def refused(action):
    try:
        action()
    except (OSError, MemoryError):
        return True
    return False

def fork_all():
    for _ in range(processes):
        if os.fork() == 0:
            os.read(read, 1)
            os._exit(0)

status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
found = {
    "reads no file outside": refused(lambda: open(secret)) and refused(lambda: open("/etc/shadow")),
    "reaches no network": refused(lambda: socket.create_connection(("127.0.0.1", port), 5))
    and refused(lambda: socket.socket(socket.AF_UNIX).connect(local))
    and [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]] == ["lo"],
    "writes nothing outside": all(refused(lambda: open(top + "/canary", "w")) for top in TOPS),
    "sees no other process": {name for name in os.listdir("/proc") if name.isdigit()} == {"1", str(os.getpid())},
    "sees nothing of the first one": os.listdir("/proc/1") == [],
    "has no privileges": (status["CapEff"].strip("0"), status["NoNewPrivs"], status["Seccomp"]) == ("", "1", "2"),
    "gets no more memory": refused(lambda: bytearray(memory)),
    "writes its own folder": not refused(lambda: open("own", "w").write("x")),
    "writes no more than it may": refused(lambda: open("own", "wb").write(bytes(disk + 1))),
}
read, write = os.pipe()
found["starts no more processes"] = refused(fork_all)
os.close(write)
print(json.dumps(found))
"""
_lock = threading.Lock()
_checked_in: int | None = None  # the process that has tried the walls


@dataclass(frozen=True, slots=True)
class SandboxState:
    """`walls`: what was tried → whether it holds; empty where nothing could be tried. `problem`: what to do."""

    works: bool
    problem: str | None = None
    bubblewrap: str | None = None
    python: str | None = None
    shell: str | None = None
    walls: dict[str, bool] = field(default_factory=dict)


def ensure_checked() -> None:
    """Tries the walls at the first call in this process. Raises SandboxMissing or SandboxError, each time anew."""
    global _checked_in
    if _checked_in == os.getpid():
        return
    with _lock:
        if _checked_in != os.getpid():
            broken = [name for name, holds in try_walls().items() if not holds]
            if broken:
                raise SandboxError(f"the sandbox is not safe, so no program is run. Not true here: {', '.join(broken)}")
            _checked_in = os.getpid()


def try_walls() -> dict[str, bool]:
    """What was tried → whether it holds. Raises SandboxMissing or SandboxError where nothing can be tried."""
    word = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(f"\0{word}")  # a name of the network's namespace, not of a file
        local.listen()
        secret = Path(folder, "secret")
        secret.write_text(word)
        for path, mode in ((folder, 0o755), (secret, 0o644)):
            Path(path).chmod(mode)
        asked = [
            str(secret),
            server.getsockname()[1],
            f"\0{word}",
            FIRST.memory_bytes,
            FIRST.disk_bytes,
            FIRST.processes,
        ]
        first = run_unchecked(TRIES, stdin=json.dumps(asked), limits=FIRST)
    if not first.ran:
        raise SandboxError(f"the sandbox's own trial {first.failure}")
    walls: dict[str, bool] = json.loads(first.stdout)
    flood = run_unchecked("while True: print('x' * 999)", limits=FLOOD)
    walls["prints no more than it may"] = flood.truncated and len(flood.stdout) == FLOOD.output_bytes
    slept = run_unchecked("sleep 600", "shell", limits=SLEEP)
    walls["takes no longer than it may"] = slept.timed_out and not slept.ran
    return walls


def inspect_sandbox() -> SandboxState:
    """For people: whether it works here, and what is missing. Raises nothing."""
    try:
        machine = find_machine()
    except SandboxMissing as missing:
        return SandboxState(works=False, problem=str(missing))
    version = subprocess.run([machine.bubblewrap, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    said = f"{machine.bubblewrap} ({version.stdout.strip() or 'unknown version'})"
    try:
        walls, problem = try_walls(), None
    except SandboxError as error:
        walls, problem = {}, str(error)
    if broken := [name for name, holds in walls.items() if not holds]:
        problem = f"these limits do not hold, so no program is run: {', '.join(broken)}"
    return SandboxState(problem is None, problem, said, machine.python, machine.shell, walls)
