"""A taskset of verifiers in a process of its own, by an interpreter that the operator names."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

HOST = Path(__file__).with_name("host.py")
SECONDS = 120.0
"""That an answer may take; loading a taskset may fetch its data."""
LONGEST_ANSWER = 32 << 20
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_OFFLINE")
"""Variables that the process gets. Reckoner's own, with its keys and addresses, stay here."""
OLDEST = (3, 11)
PROBE = "import sys, importlib.util as u; print(*sys.version_info[:2], u.find_spec('verifiers') is not None)"


class Missing(RuntimeError):
    """What a taskset needs and is not there; `reasons` has all that is known."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = tuple(reasons)


class HostFailed(RuntimeError):
    """The process of the taskset ended, said nothing in time, or failed at what it was asked."""


class RewardFailed(RuntimeError):
    """A reward of a task failed, so there is no score."""


class TasksetTask(msgspec.Struct, frozen=True):
    """A task: `messages` are its prompt, as OpenAI's. `weights`: of its rewards, by name. `lacks`: why a reply alone
    cannot be scored."""

    index: int
    key: str
    messages: tuple[dict[str, Any], ...]
    weights: dict[str, float]
    lacks: tuple[str, ...]

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return "\n\n".join(_text(one.get("content")) for one in self.messages)


class Weighted(msgspec.Struct, frozen=True):
    score: float
    weight: float


class Scored(msgspec.Struct, frozen=True):
    """What the rewards say of a reply. `failed`: rewards and metrics that raised, with what."""

    rewards: dict[str, Weighted]
    metrics: dict[str, float]
    failed: dict[str, str]

    @property
    def reward(self) -> float:
        """Σ weight · score. Raises RewardFailed where one failed: a failure is never 0."""
        if self.failed:
            raise RewardFailed("; ".join(f"{name}: {why}" for name, why in self.failed.items()))
        return sum(one.weight * one.score for one in self.rewards.values())


class Taskset:
    """An open taskset; close it, or use it as a context. Raises Missing with everything that is not there, HostFailed.

    `name`: an installed package, or with `folder` a module in it. `config`: fields of the taskset's own. `variables`:
    names of further environment variables that its process gets.
    """

    def __init__(
        self,
        name: str,
        python: Path,
        *,
        folder: Path | None = None,
        config: Mapping[str, Any] | None = None,
        variables: Sequence[str] = (),
        seconds: float = SECONDS,
    ) -> None:
        self.name, self.seconds = name, seconds
        environment = {one: os.environ[one] for one in (*PASSED_ON, *variables) if one in os.environ}
        if reasons := [*_find_missing(python, folder, variables, environment)]:
            raise Missing(reasons)
        arguments = [name, json.dumps(config or {}), *([str(folder.resolve())] if folder else [])]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # noqa: S603 - the operator names the interpreter
            [str(python), "-P", str(HOST), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self._rest, self.owner = b"", os.getpid()
        try:
            about = self._read()
            if "missing" in about:
                raise Missing([f"taskset {name!r}: {about['missing']}"])
        except BaseException:
            self.close()
            raise
        self.version, self.infinite = str(about["verifiers"]), bool(about["infinite"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def list_tasks(self, first: int, count: int) -> list[TasksetTask]:
        """Tasks number `first` … `first + count − 1`, fewer where the taskset ends. Raises HostFailed."""
        answer = self._ask({"op": "tasks", "first": first, "count": count})
        return msgspec.convert(answer["tasks"], list[TasksetTask])

    def score(self, index: int, reply: str) -> Scored:
        """What the task's rewards say of a reply. Raises HostFailed, also for a task that lacks something."""
        return msgspec.convert(self._ask({"op": "score", "index": index, "reply": reply}), Scored)

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._as_failed("has ended") from error
        answer = self._read()
        if "fault" in answer:
            raise HostFailed(f"taskset {self.name!r}: {answer['fault']}")
        return answer

    def _read(self) -> dict[str, Any]:
        """The next line. A process that is too slow is ended: its next answer would be that to an older question."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not waiting.select(self.seconds):
                    self._process.kill()
                    raise self._as_failed(f"gave no answer within {self.seconds:g} s")
                chunk = os.read(self._process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise self._as_failed("has ended")
                self._rest += chunk
                if len(self._rest) > LONGEST_ANSWER:
                    self._process.kill()
                    raise self._as_failed(f"gave an answer of more than {LONGEST_ANSWER >> 20} MiB")
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _as_failed(self, what: str) -> HostFailed:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return HostFailed(f"the process of taskset {self.name!r} {what}" + (f": {said[-1]}" if said else ""))


def _find_missing(
    python: Path, folder: Path | None, variables: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    reasons = [f"variable {name}: is not set" for name in variables if name not in environment]
    if folder is not None and not folder.is_dir():
        reasons.append(f"{folder}: is not a folder")
    if not (python.is_file() and os.access(python, os.X_OK)):
        return [
            *reasons,
            f"{python}: is not an interpreter; give that of an environment with verifiers, such as .venv/bin/python",
        ]
    try:
        told = subprocess.run(  # noqa: S603
            [str(python), "-P", "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [*reasons, f"{python}: {error}"]
    words = told.stdout.split()
    if told.returncode != 0 or len(words) != 3:
        said = told.stderr.strip().splitlines()
        return [*reasons, f"{python}: is not Python 3.11 or newer{f' ({said[-1]})' if said else ''}"]
    if (int(words[0]), int(words[1])) < OLDEST:
        reasons.append(f"{python}: is Python {words[0]}.{words[1]}; verifiers needs 3.11 or newer")
    if words[2] != "True":
        reasons.append(f"{python}: verifiers is not installed there; pip install verifiers")
    return reasons


def _text(content: Any) -> str:
    """Of a message; images are left out."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict) and "text" in part)
    return content if isinstance(content, str) else ""
