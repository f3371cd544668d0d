"""Starts the engine process, watches it, stops it, and collects its output.

The supervisor holds the engine's stdin. When the supervisor dies, the engine reads end of file, leaves a checkpoint and
exits, so no engine is left behind. Each attempt writes only under `attempts/<fence>/`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import structlog
from django.conf import settings

from jobs.context import JobContext
from jobs.errors import JobCancelled, Permanent
from models_registry.artifacts.opening import reading
from training.engine.spec.result import RunResult
from training.engine.spec.run_spec import EXIT_BAD_SPEC, EXIT_FAILED, EXIT_OK, EXIT_STOPPED
from training.errors import EngineFailed

logger = structlog.get_logger(__name__)

ENGINE: tuple[str, ...] = (sys.executable, "-m", "training.engine")
IN_STORE = re.compile(r'/sha256/[0-9a-f]{2}/([0-9a-f]{64})"')
POLL_SECONDS = 0.25
CANCEL_CHECK_SECONDS = 1.0
LAST_WORDS = 2000
BAD_SPEC = '{"error": "bad_spec"'
"""How the engine begins the line in which it refuses a spec."""
TRY_DEVICE: tuple[str, ...] = (sys.executable, "-m", "training.engine.machine.hardware")
TRY_SECONDS = 120.0

# The engine gets what it needs to find Python, models and devices: no database, no keys.
# RECKONER_INSTANCE is the mark by which `manage.py up` finds what it must stop.
PASSED_ON = (
    "RECKONER_INSTANCE",
    "RECKONER_DEVICE",
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
)
PASSED_ON_PREFIXES = ("HF_", "TRANSFORMERS_", "TORCH_", "NCCL_", "GLOO_", "ACCELERATE_")
ACCELERATE = (sys.executable, "-m", "accelerate.commands.launch")

EventSink = Callable[[Sequence[Mapping[str, Any]]], None]


def key_of_judge(run_dir: Path) -> dict[str, str]:
    """The environment variable with the key of the run's judge, where it has one."""
    judge = json.loads((run_dir / "spec.json").read_text(encoding="utf-8")).get("judge") or {}
    name = judge.get("key_variable")
    return {name: os.environ[name]} if name and name in os.environ else {}


def engine_environment() -> dict[str, str]:
    chosen = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    return chosen | {"PYTHONPATH": str(settings.BASE_DIR), "PYTHONUNBUFFERED": "1"}


def engine_command() -> list[str]:
    """What a run is trained by, less its arguments: the engine, or as many of it as `accelerate launch` is told."""
    if not settings.ACCELERATE:
        return list(ENGINE)
    return [*ACCELERATE, *shlex.split(settings.ACCELERATE), "-m", "training.engine"]


def find_engine_code(code: int, attempt: Path, log: str) -> int:
    """The exit code of the engine, where what started it ended with `code`: of several processes accelerate says no
    more than that one of them failed."""
    if code not in (EXIT_FAILED, -signal.SIGTERM):
        return code
    if BAD_SPEC in log:
        return EXIT_BAD_SPEC
    tail = EventTail(attempt / "events.jsonl")
    events = tail.read()
    tail.close()
    return EXIT_STOPPED if events and events[-1]["kind"] == "stopped" else code


def run_once(run_dir: Path) -> subprocess.CompletedProcess[str]:
    """The engine's first attempt at the spec in the folder, to its end, for a command without a job behind it."""
    return subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
        [*ENGINE, str(run_dir), "--attempt", "1"],
        env=engine_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ask_engine_for_device() -> dict[str, Any]:
    """`torch`, `device` and `error` ("" where it calculates) of a process like the engine's, which loads torch."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
            TRY_DEVICE,
            cwd=settings.BASE_DIR,
            env=engine_environment(),
            capture_output=True,
            text=True,
            timeout=TRY_SECONDS,
            check=False,
        )
        told: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"torch": "", "device": "", "error": f"no answer in {TRY_SECONDS:.0f} s"}
    except json.JSONDecodeError:
        return {"torch": "", "device": "", "error": done.stderr[-LAST_WORDS:].strip().rpartition("\n")[2]}
    return told


def write_atomically(path: Path, content: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


@dataclass
class EventTail:
    """Reads the complete lines that an attempt has appended to its events.jsonl since the last look."""

    path: Path
    _handle: IO[bytes] | None = field(default=None, init=False)
    _rest: bytes = field(default=b"", init=False)

    def read(self) -> list[dict[str, Any]]:
        if self._handle is None:
            if not self.path.exists():
                return []
            self._handle = self.path.open("rb")
        *lines, self._rest = (self._rest + self._handle.read()).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()


@dataclass(frozen=True, slots=True)
class Finished:
    """A complete attempt: its folder and its result."""

    folder: Path
    result: RunResult


def run_engine(context: JobContext, run_dir: Path, *, sink: EventSink) -> Finished:
    """Runs one attempt to its end. `sink` gets the events as they come, inside a fenced transaction.

    Raises JobCancelled after a cancel, StaleFence when another attempt took over, Permanent for a refused spec,
    EngineFailed for any other end without a result.
    """
    with reading(*find_artifacts(run_dir)):
        return _run_attempt(context, run_dir, sink)


def find_artifacts(run_dir: Path) -> set[str]:
    """Digests of the artifacts whose folders the run's spec names: they are fetched where they are not on this disk, as
    for a run that goes on elsewhere."""
    return set(IN_STORE.findall((run_dir / "spec.json").read_text(encoding="utf-8")))


def _run_attempt(context: JobContext, run_dir: Path, sink: EventSink) -> Finished:
    attempt = run_dir / "attempts" / str(context.fence)
    tail = EventTail(attempt / "events.jsonl")
    log_path = run_dir / f"engine-{context.fence}.log"
    with log_path.open("wb") as log, _engine_process(run_dir, context.fence, log) as process:
        try:
            code = _watch(context, process, tail, sink)
        finally:
            tail.close()
    if code == EXIT_OK:
        result = RunResult.model_validate_json((attempt / "result.json").read_text())
        return Finished(attempt, result)
    told = log_path.read_text(errors="replace")
    last_words = told[-LAST_WORDS:].strip()
    code = find_engine_code(code, attempt, told)
    if code == EXIT_BAD_SPEC:
        raise Permanent(f"the engine refused the spec: {last_words}")
    if code == EXIT_STOPPED and context.cancel_requested():
        raise JobCancelled
    reason = f"signal {-code}" if code < 0 else f"exit code {code}"
    raise EngineFailed(f"the engine ended with {reason}: {last_words.splitlines()[-1] if last_words else 'no output'}")


@contextlib.contextmanager
def _engine_process(run_dir: Path, attempt: int, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process in a group of its own; whatever happens here, it is gone afterwards."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        [*engine_command(), str(run_dir), "--attempt", str(attempt), "--supervised"],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=settings.BASE_DIR,
        env=engine_environment() | key_of_judge(run_dir),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _stop(process)
        if process.stdin is not None:
            process.stdin.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, time for a checkpoint, then SIGKILL to the whole group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(settings.TRAINING_STOP_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            logger.warning("engine_killed", pid=process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _watch(context: JobContext, process: subprocess.Popen[bytes], tail: EventTail, sink: EventSink) -> int:
    next_cancel_check = time.monotonic()
    stopping = False
    while True:
        code = process.poll()
        events = tail.read()
        if events:
            with context.fenced():
                sink(events)
        if code is not None:
            return code
        context.check_owned()
        if not stopping and time.monotonic() >= next_cancel_check:
            next_cancel_check = time.monotonic() + CANCEL_CHECK_SECONDS
            if context.cancel_requested():
                stopping = True
                process.send_signal(signal.SIGTERM)
                deadline = time.monotonic() + settings.TRAINING_STOP_GRACE_SECONDS
        if stopping and time.monotonic() > deadline:
            raise JobCancelled  # leaving the context kills the group
        time.sleep(POLL_SECONDS)
