"""Finds the processes of one instance by a mark in their environment, stops them in order, and cleans up leftovers.

Process ids are not reliable after a crash: they are reused, and grandchildren are not recorded. So `up` puts
RECKONER_INSTANCE=<var> into the environment of all it starts. A process belongs to the instance if it carries that, or
works in the instance's data directory: PostgreSQL and Valkey write their titles over their environment.
"""

import signal
import time
from collections.abc import Iterable

import psutil

from project.embedded.layout import Layout

MARK = "RECKONER_INSTANCE"
SERVICE_NAMES = ("postgres", "valkey-server")


def find_processes(layout: Layout) -> list[psutil.Process]:
    """All living processes of the instance, except our own and our ancestors."""
    ourselves = psutil.Process()
    spared = {ourselves.pid, *(parent.pid for parent in ourselves.parents())}
    mark = str(layout.var)
    homes = {str(layout.postgres), f"{layout.postgres}.new", str(layout.valkey)}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in spared and _lives(process) and _belongs(process, mark, homes)
    ]


def _belongs(process: psutil.Process, mark: str, homes: set[str]) -> bool:
    try:
        return process.environ().get(MARK) == mark or process.cwd() in homes
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        # Gone, or another user's: not ours to touch.
        return False


def find_orphans(layout: Layout) -> list[psutil.Process]:
    """Processes of the instance, other than its databases, whose parent is neither in the instance nor `up` itself."""
    found = [process for process in find_processes(layout) if not is_service(process)]
    known = {process.pid for process in found} | {psutil.Process().pid}
    return [process for process in found if _parent(process) not in known]


def identify(process: psutil.Process) -> tuple[int, float]:
    """Process id and start time: ids are used again."""
    return process.pid, process.create_time()


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return None


def is_service(process: psutil.Process) -> bool:
    """Whether it is one of the data's own servers, which go last."""
    try:
        return process.name() in SERVICE_NAMES
    except psutil.NoSuchProcess:
        return False


def reap(layout: Layout, grace: float = 20.0, patience: float = 45.0) -> list[str]:
    """Stop whatever of the instance still runs; returns the names of what was found.

    A supervisor among them gets SIGTERM and `patience` seconds to stop the rest in its order. Then the programs:
    SIGTERM, `grace` seconds, SIGKILL; then the databases: SIGINT (PostgreSQL's fast shutdown), `patience` seconds,
    SIGKILL, from which PostgreSQL recovers at its next start.
    """
    found = find_processes(layout)
    if not found:
        return []
    names = [_name(process) for process in found]
    supervisors = [process for process in found if "project.embedded.overseer" in read_command(process)]
    if supervisors:
        send(supervisors, signal.SIGTERM)
        # A supervisor that does not end must not restart what we stop.
        send(wait_for_end(supervisors, patience), signal.SIGKILL)
    _stop([process for process in find_processes(layout) if not is_service(process)], signal.SIGTERM, grace)
    # Two rounds: a program may have started another before it ended.
    _stop([process for process in find_processes(layout) if not is_service(process)], signal.SIGKILL, grace)
    servers = find_processes(layout)
    heads = [process for process in servers if _parent(process) not in {other.pid for other in servers}]
    _stop(heads, signal.SIGINT, patience)
    _stop(find_processes(layout), signal.SIGKILL, grace)
    return names


def _stop(processes: list[psutil.Process], by: signal.Signals, grace: float) -> None:
    send(processes, by)
    alive = wait_for_end(processes, grace)
    send(alive, signal.SIGKILL)
    wait_for_end(alive, 5.0)


def wait_for_end(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until all have ended; returns those that have not after `seconds`.

    A zombie has ended: in a container, process 1 may never collect it (psutil.wait_procs would wait on).
    """
    give_up = time.monotonic() + seconds
    alive = [process for process in processes if _lives(process)]
    while alive and time.monotonic() < give_up:
        time.sleep(0.05)
        alive = [process for process in alive if _lives(process)]
    return alive


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send the signal to those that are still there."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} ({process.pid})"
    except psutil.NoSuchProcess:
        return f"({process.pid})"


def has_children(pid: int | None) -> bool:
    """False where there is no such process."""
    try:
        return pid is not None and bool(psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return False


def read_command(process: psutil.Process) -> list[str]:
    """Its command line; empty where it has ended or is not ours to look at."""
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
