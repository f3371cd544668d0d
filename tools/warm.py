"""Processes that start by fork: engines and model servers, from one that has imported torch and transformers, and
Django's commands, from one that has set Django up.

The imports take some five seconds of processor time, the setting up one, and the tests start dozens of these processes.
The line `warm.py FOLDER MODULE ARGUMENT…` stands for `python -m MODULE ARGUMENT…`, or for `python MODULE ARGUMENT…` of
a file, with its streams, environment, working directory, signals and exit code; whoever kills it ends the process
behind it. What stops a process (SIGSTOP) does not reach that one: such a test starts Python itself. The first that is
started starts the process to fork from, which ends when FOLDER is gone, or when nobody has asked for long. FOLDER is
the session's; programs of Django, the first of which is one of `DJANGO`, want one of their own for each environment:
the settings are read but once.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANAGE = "manage"
DJANGO = (MANAGE, "project")
IMPORTED = (
    *("training.engine.attempt.attempt", "training.engine.run", "training.engine.server"),
    # The methods import these when they train.
    *("sklearn.feature_extraction.text", "sklearn.isotonic", "sklearn.model_selection", "sklearn.svm"),
)
LOOK_SECONDS = 1.0
IDLE_SECONDS = 900.0
START_SECONDS = 300.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def stand_in(folder: Path, module: str) -> tuple[str, ...]:
    """The command line that stands for `python -m module`, or for `python module` of a module that is a file."""
    return (sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(folder), module)


# The one that stands for the process


def call(folder: Path, module: str, arguments: list[str]) -> int:
    """Has it started, hands on signals, and ends as it ended."""
    with _connect(folder, module) as server:
        asked = {"module": module, "arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        body = json.dumps(asked).encode()
        socket.send_fds(server, [len(body).to_bytes(4)], [0, 1, 2])
        server.sendall(body)
        pid = int.from_bytes(_read(server, 4))
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        status = os.waitstatus_to_exitcode(int.from_bytes(_read(server, 4)))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    return status


def _connect(folder: Path, module: str) -> socket.socket:
    path = folder / "warm.sock"
    with (folder / "warm.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), "serve", str(folder), module],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(folder / "warm.log").open("w"),
                start_new_session=True,
            )
        give_up = time.monotonic() + START_SECONDS
        while not path.exists():
            if time.monotonic() > give_up:
                raise TimeoutError(f"the process to fork from did not start: {(folder / 'warm.log').read_text()}")
            time.sleep(0.02)
    found = socket.socket(socket.AF_UNIX)
    found.connect(str(path))
    return found


def _read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionError("the other side has ended")
        found += more
    return found


# The one to fork from


def serve(folder: Path, module: str) -> None:
    _set_django_up() if module in DJANGO else _import_engine()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that serve one caller
    listening = socket.socket(socket.AF_UNIX)
    unready = folder / "warm.unready"
    listening.bind(str(unready))
    listening.listen(64)
    unready.rename(folder / "warm.sock")
    asked_last = time.monotonic()
    while folder.exists() and time.monotonic() - asked_last < IDLE_SECONDS:  # a killed session leaves its folder
        if not select.select([listening], [], [], LOOK_SECONDS)[0]:
            continue
        caller, _ = listening.accept()
        asked_last = time.monotonic()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(ConnectionError):
                _serve_one(caller)
            os._exit(0)
        caller.close()
    (folder / "warm.sock").unlink(missing_ok=True)


def _import_engine() -> None:
    import importlib

    from training.engine.spec.methods import METHODS

    entries = [entry for method in METHODS.values() for entry in (method.entry, *method.entries.values()) if entry]
    for module in (*IMPORTED, *(entry.partition(":")[0] for entry in entries)):
        importlib.import_module(module)
    del sys.modules["training.engine.server"]  # it is run, not imported


def _set_django_up() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django
    from django.core.management import get_commands, load_command_class

    django.setup()
    for name in ("import_decisions", "create_key", "bootstrap"):  # and what they import
        load_command_class(get_commands()[name], name)


def _serve_one(caller: socket.socket) -> None:
    """Starts what is asked for; tells its id, later how it ended; kills it when the caller is gone."""
    head, streams, _, _ = socket.recv_fds(caller, 4, 3)
    asked = json.loads(_read(caller, int.from_bytes(head)))
    pid = os.fork()
    if pid == 0:
        caller.close()
        _become(asked, streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    caller.sendall(pid.to_bytes(4))
    ready, _, _ = select.select([ended, caller], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    caller.sendall(status.to_bytes(4))


def _become(asked: dict, streams: list[int]) -> None:
    import runpy

    code = 1
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        sys.argv = [asked["module"], *asked["arguments"]]
        if asked["module"].endswith(".py"):
            runpy.run_path(asked["module"], run_name="__main__")
        else:
            runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter itself does at its end
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(call(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
