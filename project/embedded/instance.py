"""Runs one instance from start to stop: lock, leftovers, databases, migrations, programs, bootstrap, monitoring.

`manage.py up` calls `run_instance`.
"""

import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from project.embedded import processes
from project.embedded.control import UNREACHABLE, Control, ProgramState
from project.embedded.errors import AlreadyRunningError, EmbeddedError
from project.embedded.layout import PROJECT_ROOT, Layout, make_private, write_private
from project.embedded.postgres import Postgres, find_owner
from project.embedded.programs import Group, Plan, Program, render_config
from project.embedded.secrets import load_secret
from project.embedded.static_files import StaticFiles
from project.embedded.valkey import Valkey, pick_port

Say = Callable[[str], None]

READY_SECONDS = 300.0
STOP_SECONDS = 120.0
WATCH_SECONDS = 1.0
# Asking the supervisor and looking through every process keeps a core from the requests for some milliseconds: done at
# once when something has ended, and else this often.
LOOK_SECONDS = 5.0
# A dead program's children get this long to end by themselves, then SIGTERM, then SIGKILL.
ORPHAN_TERM_SECONDS, ORPHAN_KILL_SECONDS = 2.0, 30.0
RETRY_FATAL_SECONDS = 30.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A signal asked the instance to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_instance(
    layout: Layout, make_plan: Callable[[], Plan], say: Say, *, once: bool = False, announce: Say | None = None
) -> tuple[int, str]:
    """Run until a signal, or until the plan's demo command has ended if `once`; returns (exit code, result).

    make_plan: called when nothing of an earlier instance runs any more, so that its ports are free again.
    say: told what happens, a line each. announce: told the URL once everything is ready.
    The result is what the demo command wrote to standard output, with `once`. When this returns or raises, everything
    has ended. Must be called in the main thread. Raises EmbeddedError.
    """
    layout.create()
    lock = take_lock(layout)
    instance = _Instance(layout, say)
    before = {number: signal.signal(number, instance.on_signal) for number in SIGNALS}
    try:
        instance.start(make_plan)
        if announce is not None:
            announce(instance.plan.url)
        return instance.stay(once)
    except StopRequested as request:
        return (128 + request.number if once else 0), ""
    finally:
        instance.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(lock)


def take_lock(layout: Layout) -> int:
    """The lock of a running `up`, which the kernel drops when it dies. Raises AlreadyRunningError."""
    descriptor = os.open(layout.run / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(descriptor, 20).decode("ascii").strip()
        os.close(descriptor)
        raise AlreadyRunningError(
            f"Reckoner already runs on {layout.var} (process {pid}); stop it, or set RECKONER_VAR to another directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode("ascii"))
    return descriptor


class _Instance:
    plan: Plan

    def __init__(self, layout: Layout, say: Say) -> None:
        self.layout, self.say = layout, say
        self.stopping = False
        self.requested: int | None = None
        self.overseer: subprocess.Popen[bytes] | None = None
        self.steps: list[subprocess.Popen[str]] = []
        # How the run before this one ended: "clean" or "crashed".
        self.earlier_end = "crashed"
        self.environment: dict[str, str] = {}
        sockets = layout.locate_sockets("control")
        make_private(sockets)
        self.control_socket = sockets / "supervisord.sock"
        self.control = Control(self.control_socket)
        self.pids: dict[str, int] = {}
        self.retry_at: dict[str, float] = {}
        self.orphans: dict[tuple[int, float], float] = {}
        self.all_run = False
        self.look_at = 0.0

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            self.say("stopping already; a moment")
            return
        self.stopping = True
        # An exception inside a destructor is only printed, so `stay` checks this too.
        self.requested = number
        raise StopRequested(number)

    # Start

    def start(self, make_plan: Callable[[], Plan]) -> None:
        left = processes.reap(self.layout)
        stopped = self.layout.run / "stopped"
        self.earlier_end = "clean" if stopped.exists() and not left else "crashed"
        stopped.unlink(missing_ok=True)
        if left:
            self.say(f"stopped processes that an earlier instance left: {', '.join(left)}")
        self.plan = make_plan()
        postgres, valkey = self._prepare_services()
        own = self._list_services(postgres, valkey)
        programs = [*own, *self.plan.programs]
        self._start_overseer(programs)
        if own:
            self.say(f"starting {' and '.join(program.name for program in own)}")
            self.control.start_group("services")
        self._start_group("models")  # needs no database, and takes longest
        if postgres is not None:
            postgres.wait_until_ready(lives=self._lives)
            postgres.create_database()
        if valkey is not None:
            valkey.wait_until_ready(lives=self._lives)
        self._publish(postgres, valkey)
        if self.plan.prepare:
            self.say("migrating the database")
            # Only with a database of our own can we know that no other worker lives.
            resume = ("--resume", self.earlier_end) if postgres is not None and self.plan.resumes else ()
            self._run_step("prepare", (*self.plan.prepare, *resume))
        if self.plan.collect:
            self._collect_static_files(self.plan.collect)
        self._start_group("web")
        if self.plan.ready_url:
            self._wait_until_ready("web", self.plan.ready_url)
        if self.plan.gateway_url:
            self._wait_until_ready("gateway", f"{self.plan.gateway_url}/readyz")
        self._start_group("apps")
        self._watch_programs(self.control.list_programs())
        if self.plan.gateway_url:
            self.say(f"OpenAI's clients: {self.plan.gateway_url}/v1")
        self.say(f"ready: {self.plan.url}  (logs in {self.layout.log}; Ctrl-C stops everything)")

    def _prepare_services(self) -> tuple[Postgres | None, Valkey | None]:
        """The embedded services that no environment variable replaces, and everybody's environment."""
        postgres = valkey = None
        self.environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "RECKONER_VAR": str(self.layout.var),
            processes.MARK: str(self.layout.var),
            "RECKONER_MODEL_SERVER_TOKEN": load_secret(
                "model_server_token", "RECKONER_MODEL_SERVER_TOKEN", self.layout.var
            ),
            **self.plan.environment,
        }
        if not os.environ.get("DATABASE_URL"):
            postgres = Postgres(self.layout.postgres, self.layout.locate_sockets("postgres"))
            if not (self.layout.postgres / "PG_VERSION").exists():
                self.say("making the database cluster")
            postgres.prepare()
            self.environment["DATABASE_URL"] = postgres.url()
        if not os.environ.get("REDIS_URL"):
            password = load_secret("valkey_password", "RECKONER_VALKEY_PASSWORD", self.layout.var)
            port = pick_port(self.layout.run / "valkey.port")
            valkey = Valkey(self.layout.valkey, self.layout.run / "valkey.conf", port, password)
            valkey.prepare()
            self.environment["REDIS_URL"] = valkey.url()
        return postgres, valkey

    def _start_group(self, group: Group) -> None:
        names = [program.name for program in self.plan.programs if program.group == group]
        if names:
            self.say(f"starting {', '.join(names)}")
            self.control.start_group(group)

    def _list_services(self, postgres: Postgres | None, valkey: Valkey | None) -> list[Program]:
        programs = []
        if postgres is not None:
            owner = find_owner()
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for every client to leave.
            programs.append(
                Program("postgres", tuple(postgres.command()), "services", "INT", 60, owner and owner[0], Path("/"))
            )
        if valkey is not None:
            programs.append(Program("valkey", tuple(valkey.command()), "services", directory=Path("/")))
        return programs

    def _start_overseer(self, programs: list[Program]) -> None:
        config = self.layout.run / "supervisord.conf"
        write_private(config, render_config(self.layout, self.control_socket, programs))
        self.control_socket.unlink(missing_ok=True)
        with (self.layout.log / "overseer.log").open("w") as log:
            self.overseer = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "project.embedded.overseer", str(config)],
                cwd=PROJECT_ROOT,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal must reach nobody but us, or the order of stopping is lost.
                start_new_session=True,
            )
        give_up = time.monotonic() + 30.0
        while not self.control.is_up():
            if self.overseer.poll() is not None or time.monotonic() > give_up:
                said = (self.layout.log / "overseer.log").read_text(encoding="utf-8")
                raise EmbeddedError(f"the supervisor did not start: {said}")
            time.sleep(0.05)

    def _lives(self) -> bool:
        """Whether starting can still succeed: the supervisor lives and has given up on no database."""
        if self.overseer is None or self.overseer.poll() is not None:
            return False
        return not any(
            program.state == "FATAL" for program in self.control.list_programs() if program.group == "services"
        )

    def _publish(self, postgres: Postgres | None, valkey: Valkey | None) -> None:
        """Tell other commands of this checkout where our servers are; what came from the environment they have."""
        where = {"WEB_URL": self.plan.url}
        if self.plan.gateway_url:
            where["GATEWAY_URL"] = self.plan.gateway_url
        if postgres is not None:
            where["DATABASE_URL"] = postgres.url()
        if valkey is not None:
            where["REDIS_URL"] = valkey.url()
        if "RECKONER_MODEL_SERVER_URL" in self.plan.environment:
            where["MODEL_SERVER_URL"] = self.plan.environment["RECKONER_MODEL_SERVER_URL"]
        write_private(self.layout.services, json.dumps(where))

    def _spawn_step(
        self, command: tuple[str, ...], stdout: int | None = None, stderr: int | None = None
    ) -> subprocess.Popen[str]:
        step = subprocess.Popen(  # noqa: S603 - our own management commands
            command,
            cwd=PROJECT_ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        self.steps.append(step)
        return step

    def _run_step(self, name: str, command: tuple[str, ...], *, quiet: bool = False) -> None:
        """Run to its end; its output is shown, or if quiet kept in var/log and shown when it fails."""
        if not quiet:
            if self._spawn_step(command).wait() != 0:
                raise EmbeddedError(f"{name} failed")
            return
        path = self.layout.log / f"{name}.log"
        with path.open("w") as log:
            code = self._spawn_step(command, log.fileno(), subprocess.STDOUT).wait()
        if code != 0:
            raise EmbeddedError(f"{name} failed; the end of {path}:\n{_read_end(path)}")

    def _collect_static_files(self, command: tuple[str, ...]) -> None:
        files = StaticFiles(self.layout)
        if not files.are_collected():
            self._run_step("collectstatic", command, quiet=True)
            files.note_collected()

    def _wait_until_ready(self, program: str, url: str) -> None:
        give_up = time.monotonic() + READY_SECONDS
        answer = ""
        while time.monotonic() < give_up:
            try:
                with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own address
                    if response.status == 200:
                        return
            except urllib.error.HTTPError as error:
                answer = f"{error.code} {error.read(500).decode(errors='replace')}"
            except (OSError, http.client.HTTPException) as error:
                answer = str(error)
            if self.overseer is None or self.overseer.poll() is not None:
                raise EmbeddedError("the supervisor has ended")
            time.sleep(0.1)
        raise EmbeddedError(f"{url} is not ready: {answer}\n{_read_end(self.layout.log / f'{program}.log')}")

    # Stay

    def stay(self, once: bool) -> tuple[int, str]:
        """Watch until a signal comes, or the demo command has ended if `once`."""
        output = self.layout.run / "demo.out"
        demo: subprocess.Popen[str] | None = None
        if self.plan.demo and once:
            with output.open("w") as file:
                demo = self._spawn_step(self.plan.demo, file.fileno())
        elif self.plan.demo:
            demo = self._spawn_step(self.plan.demo)
        while True:
            if self.requested is not None:
                raise StopRequested(self.requested)
            if demo is not None and demo.poll() is not None and once:
                return demo.returncode, output.read_text(encoding="utf-8")
            if self.overseer is not None and self.overseer.poll() is not None:
                raise EmbeddedError(f"the supervisor has ended; see {self.layout.log / 'supervisord.log'}")
            if self._needs_a_look():
                self._look()
            time.sleep(WATCH_SECONDS)

    def _needs_a_look(self) -> bool:
        """Whether something has ended or is being looked after, or the time has come."""
        still = self.all_run and not self.orphans and all(psutil.pid_exists(pid) for pid in self.pids.values())
        return not still or time.monotonic() >= self.look_at

    def _look(self) -> None:
        self.look_at = time.monotonic() + LOOK_SECONDS
        try:
            states = self.control.list_programs()
            self.all_run = all(state.state == "RUNNING" for state in states)
            self._watch_programs(states)
        except UNREACHABLE:
            self.all_run = False
            self.say("the supervisor does not answer")
        self._end_orphans()

    def _watch_programs(self, states: list[ProgramState]) -> None:
        """Tell of restarts, and try again those that the supervisor has given up on."""
        now = time.monotonic()
        for state in states:
            if state.pid and self.pids.get(state.name, state.pid) != state.pid:
                self.say(f"{state.name} ended and was started again (see {self.layout.log / state.name}.log)")
            if state.pid:
                self.pids[state.name] = state.pid
            if state.state != "FATAL":
                self.retry_at.pop(state.name, None)
            elif now >= self.retry_at.setdefault(state.name, now + RETRY_FATAL_SECONDS):
                self.say(f"{state.name} does not stay up; trying again (see {self.layout.log / state.name}.log)")
                self.control.start_program(state)
                self.retry_at.pop(state.name)

    def _end_orphans(self) -> None:
        """End the children of programs that were killed: they would serve on, or hold ports and memory."""
        now = time.monotonic()
        found = processes.find_orphans(self.layout)
        keys = {processes.identify(process): process for process in found}
        self.orphans = {key: self.orphans.get(key, now) for key in keys}
        self.orphans |= {key: now for key, process in keys.items() if self._is_still_needed(process)}
        for key, since in self.orphans.items():
            if now - since >= ORPHAN_KILL_SECONDS:
                processes.send([keys[key]], signal.SIGKILL)
            elif now - since >= ORPHAN_TERM_SECONDS:
                processes.send([keys[key]], signal.SIGTERM)

    def _is_still_needed(self, orphan: psutil.Process) -> bool:
        """Whether it is a child of a killed program that hands over, whose next process has no children yet."""
        command = processes.read_command(orphan)
        return any(
            program.hands_over
            and command == list(program.command)
            and not processes.has_children(self.pids.get(program.name))
            for program in self.plan.programs
        )

    # Stop

    def stop(self) -> None:
        """Stop everything in order: steps, programs, databases; then whatever is left."""
        self.stopping = True
        if self.overseer is not None:
            self.say("stopping")
        for step in self.steps:
            if step.poll() is None:
                step.terminate()
        if self.overseer is not None and self.overseer.stdin is not None:
            self.overseer.stdin.close()
            try:
                self.overseer.wait(STOP_SECONDS)
                (self.layout.run / "stopped").touch()
            except subprocess.TimeoutExpired:
                self.say("the supervisor does not end; killing it")
                self.overseer.kill()
                self.overseer.wait()
        processes.reap(self.layout)
        for step in self.steps:
            step.wait()
        self.layout.services.unlink(missing_ok=True)
        if self.overseer is not None:
            self.say("stopped")


def _read_end(path: Path, characters: int = 4000) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-characters:] if path.exists() else ""
