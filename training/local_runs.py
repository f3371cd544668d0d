"""Engine runs in a folder of the caller's, without an instance: what `manage.py train` does.

Rows come from a file, the weights go into a folder, and nothing is registered. `manage.py runs start` is the way into
the registry.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from decisions.models import Agent
from models_registry.artifacts import artifact_path
from models_registry.models import ArtifactKind
from training import launcher
from training.base_models import TINY
from training.cards import CARD, card_of_folder
from training.dataset_parts import ROWS_FILE
from training.datasets import snapshot_ledger
from training.engine.methods import TRAINING, Need, RowKind
from training.engine.settings import Online
from training.engine.spec import EXIT_BAD_SPEC, EXIT_OK, EXIT_STOPPED, RunResult
from training.errors import EngineFailed
from training.hardware import this_machine, why_no_quantisation
from training.imports.texts import read_texts
from training.launcher import EventTail, engine_environment, write_atomically
from training.models import DatasetKind
from training.rows_of.shapes import shape_of
from workspaces.actors import Actor

RUN, ROWS = "run", "rows.jsonl"
POLL_SECONDS = 0.2
PROMPT_TOKENS: Mapping[str, tuple[int, int]] = {"PRIORITIZER": (1024, 256)}
OTHERS_TOKENS = (512, 128)
"""Of prompt and completion, by kind of agent."""
TEMPLATE_TOKENS = 64
FAULTS_SHOWN = 20
LORA = {"r": 16, "alpha": 32}


class UnusableRun(ValueError):
    """The run cannot be made; `faults` names every reason."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = list(faults)


class Interrupted(Exception):
    """Stopped on request; a checkpoint was left, and the same call goes on from it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """`lines` as the engine reads them."""

    kind: RowKind
    lines: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Training:
    """What `manage.py train` is told. `method` is one that trains; `base` is `tiny`, a folder or a hub id."""

    method: str
    base: str
    agent_kind: str
    epochs: int
    batch_size: int
    learning_rate: float
    quantised: bool


def read_rows(path: Path) -> Rows:
    """Labelled or logged rows, preference pairs, or what `export_training_data` wrote. Raises UnusableRun."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise UnusableRun([f"{path}: {error.strerror}"]) from error
    except ValueError as error:
        raise UnusableRun([f"{path}: {error}"]) from error
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise UnusableRun([f"{path}: not every line is a JSON object" if lines else f"{path}: holds no rows"])
    for field, kind in (("answer", RowKind.LABELLED), ("action", RowKind.LOGGED), ("chosen", RowKind.PREFERENCES)):
        if field in lines[0]:
            return Rows(kind, lines)
    texts, faults = read_texts(path)
    if faults:
        raise UnusableRun(faults[:FAULTS_SHOWN])
    return Rows(RowKind.TEXT, texts)


def rows_of_agent(*, by: Actor, agent: Agent) -> Rows:
    """Its rewarded decisions, frozen as a dataset of the kind that its actions make. Raises EmptyDataset."""
    name = f"manage.py train, {timezone.localtime():%-d %b %Y %H:%M:%S}"
    version = agent.versions.first()  # the newest
    kind = shape_of(version).kind if version is not None else DatasetKind.LOGGED
    dataset = snapshot_ledger(by=by, agent=agent, name=name, kind=kind)
    assert dataset.row_kind is not None
    lines = (artifact_path(dataset.artifact.digest) / ROWS_FILE).read_text(encoding="utf-8").splitlines()
    return Rows(dataset.row_kind, [json.loads(line) for line in lines])


def train_here(asked: Training, rows: Rows, output: Path, say: Callable[[str], None]) -> RunResult:
    """Trains into `output`: model/ or adapter/, checkpoint-epoch-N/, and run/, the engine's own folder.

    A folder in which the same run was stopped goes on from its checkpoint. `say` gets progress and warnings. Raises
    UnusableRun before anything is written, Interrupted, or EngineFailed.
    """
    check_training(asked)
    if rows.kind not in TRAINING[asked.method].learns_from:
        others = ", ".join(name for name, method in TRAINING.items() if rows.kind in method.learns_from)
        raise UnusableRun([f"--method: {asked.method} cannot learn from {rows.kind} rows; of those learn {others}"])
    spec, is_new = _spec_of(asked, rows), not output.exists()
    _lay_out(output, spec, {ROWS: rows.lines})
    try:
        folder = _run_engine(output.resolve() / RUN, say)
    except UnusableRun:
        if is_new:
            output.rmdir()
        raise
    result = RunResult.model_validate_json((folder / "result.json").read_text())
    assert result.output is not None
    made = [folder / result.output, *folder.glob("checkpoint-epoch-*")]
    for place in made:
        target = output / place.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place, target)
        _name_base(target, asked, result)
    return result


def check_training(asked: Training) -> None:
    """What can be said before any row is read. Raises UnusableRun."""
    faults = []
    if asked.quantised and not _trains_whole(asked) and (lack := why_no_quantisation(this_machine())):
        faults.append(f"--no-quantization: give it, as {lack}")
    if asked.base == TINY and not TRAINING[asked.method].makes_model:
        faults.append(f"--model: {asked.method} cannot begin with a new tiny model")
    if faults:
        raise UnusableRun(faults)


def _trains_whole(asked: Training) -> bool:
    """Every weight, and no adapter."""
    return asked.base == TINY or not TRAINING[asked.method].trains_adapter


def _spec_of(asked: Training, rows: Rows) -> dict[str, Any]:
    method, whole = TRAINING[asked.method], _trains_whole(asked)
    prompt, completion = PROMPT_TOKENS.get(asked.agent_kind, OTHERS_TOKENS)
    tiny = {"max_positions": prompt + completion + TEMPLATE_TOKENS}
    online = Need.REWARD_FUNCTION in method.needs(rows.kind)
    passes = math.ceil(len(rows.lines) * asked.epochs / Online().prompts_per_step)
    return {
        "run_id": f"train-{_digest(rows.lines)}",
        "method": asked.method,
        "base": {"tiny": tiny} if asked.base == TINY else {"path": _absolute(asked.base)},
        "max_prompt_tokens": prompt,
        "max_completion_tokens": completion,
        "lora": None if whole else LORA,
        "quantisation": "4bit" if asked.quantised and not whole else None,
        "optimiser": {
            "epochs": asked.epochs,
            "batch_size": asked.batch_size,
            "learning_rate": asked.learning_rate,
        },
        "epoch_checkpoints": not online and rows.kind is not RowKind.TEXT and not method.makes_reward_model,
        "serving": {"temperature": 0.7},
        "data": {"train": ROWS, "rows": rows.kind},
        **({"online": {"steps": passes}} if online else {}),
        **({"reward": [{"name": "matches_answer"}]} if online else {}),
    }


def _digest(lines: Sequence[Mapping[str, Any]]) -> str:
    """Other rows are another run, even in the same folder."""
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16]


def _absolute(base: str) -> str:
    """A folder's whole path; a hub id as it is."""
    return str(Path(base).resolve()) if Path(base).is_dir() else base


def _lay_out(output: Path, spec: Mapping[str, Any], files: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """run/spec.json and its rows; a folder that holds another run, or other things, is refused."""
    content = json.dumps(spec, indent=2)
    output = output.resolve()
    told = output / RUN / "spec.json"
    if told.exists() and told.read_text() == content:
        return
    if output.exists() and any(output.iterdir()):
        raise UnusableRun([f"--output: {output} holds something else; name a folder that is empty or new"])
    (output / RUN).mkdir(parents=True)
    for name, lines in files.items():
        (output / RUN / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_atomically(told, content)


def _run_engine(run_dir: Path, say: Callable[[str], None]) -> Path:
    """One more attempt, to its end; its folder. Ctrl-C lets it leave a checkpoint first."""
    attempt = run_dir / "attempts" / str(len(list(run_dir.glob("attempts/*"))) + 1)
    tail = EventTail(attempt / "events.jsonl")
    log = run_dir / f"engine-{attempt.name}.log"
    failed = ""
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
            [*launcher.engine_command(), str(run_dir), "--attempt", attempt.name],
            cwd=settings.BASE_DIR,
            env=engine_environment(),
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is this process's to pass on
        )
        try:
            while process.poll() is None:
                failed = _say_events(tail, say) or failed
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)
        finally:
            process.wait()
            failed = _say_events(tail, say) or failed
            tail.close()
    told = log.read_text(errors="replace")
    last_words = told.strip().rpartition("\n")[2]
    code = launcher.find_engine_code(process.returncode, attempt, told)
    if code == EXIT_STOPPED:
        raise Interrupted("Stopped. Run the same command again to resume from the checkpoint.")
    if code == EXIT_BAD_SPEC:
        shutil.rmtree(run_dir)
        refusal = next(line for line in told.splitlines() if line.startswith(launcher.BAD_SPEC))
        raise UnusableRun(json.loads(refusal)["faults"])
    if code != EXIT_OK:
        raise EngineFailed(failed or last_words or f"exit code {code}")
    return attempt


def _say_events(tail: EventTail, say: Callable[[str], None]) -> str:
    """Passes on progress and warnings; why the attempt failed, if it said so."""
    failed = ""
    for event in tail.read():
        if event["kind"] == "progress":
            say(f"{event['fraction']:4.0%}  {event['message']}")
        elif event["kind"] == "warning":
            say(f"warning: {event['message']}")
        elif event["kind"] == "failed":
            failed = event["error"]
    return failed


def _name_base(folder: Path, asked: Training, result: RunResult) -> None:
    """An adapter's folder tells peft what it belongs to; the card tells people what it began with."""
    base, config = _absolute(asked.base), folder / "adapter_config.json"
    kind = ArtifactKind.ADAPTER if config.exists() else ArtifactKind.MODEL
    if TRAINING[asked.method].makes_reward_model:
        kind = ArtifactKind.REWARD_MODEL
    if config.exists():
        told = json.loads(config.read_text()) | {"base_model_name_or_path": base}
        write_atomically(config, json.dumps(told, indent=2))
    write_atomically(folder / CARD, card_of_folder(base, method=result.method, rows=result.rows, kind=kind))
