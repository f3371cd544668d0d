"""Engine runs in a folder of the caller's, without an instance: what `manage.py train` does.

Rows come from a file, the weights go into a folder, and nothing is registered. `manage.py runs start` is the way into
the registry.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.models import Agent
from models_registry.artifacts.opening import artifact_path
from models_registry.models import ArtifactKind
from training.datasets.freezing import freeze_rows
from training.engine.spec.methods import TRAINING, RowKind
from training.engine.spec.result import RunResult
from training.engine.spec.run_spec import EXIT_BAD_SPEC, EXIT_OK, EXIT_STOPPED
from training.errors import EngineFailed
from training.imports.exported import read_export
from training.imports.row_files import is_exported, is_labelled, read_row_file
from training.imports.row_lines import BROKEN, find_first, read_row_lines
from training.local.plans import LocalPlan, Rows, Training, UnusableRun, absolute_base
from training.local.watching import has_ended, leave_note
from training.models import DatasetKind
from training.rows.parts import ROWS_FILE
from training.rows.selection import Filters
from training.rows.shapes_of.shapes import shape_of
from training.runs import launcher
from training.runs.launcher import EventTail, engine_environment, write_atomically
from training.supervision.cards import CARD, card_of_folder
from workspaces.access.actors import Actor

RUN = "run"
POLL_SECONDS = 0.2
FAULTS_SHOWN = 20


class Interrupted(Exception):
    """Stopped on request; a checkpoint was left, and the same call goes on from it."""


def read_rows(path: Path) -> Rows:
    """Labelled or logged rows, tasks, preference pairs and texts in any form, or what `export_training_data` wrote.
    Raises UnusableRun."""
    lines, faults = read_row_lines(path)
    first = find_first(lines)
    kind = _kind_of(first) if first is not None else None
    if kind is not None and not faults:
        rows = []
        for number, line in lines.items():
            try:
                rows.append({"id": str(number), **msgspec.json.decode(line, type=dict[str, Any])})
            except BROKEN as error:
                faults.append(f"{path}:{number}: {error}")
        if not faults:
            return Rows(kind, rows)
    if faults:
        raise UnusableRun(faults[:FAULTS_SHOWN])
    if first is not None and is_exported(lines, first):
        exported, faults = read_export(path)
        if not faults:
            agent_kind = next(iter(exported.kinds)) if len(exported.kinds) == 1 else ""
            return Rows(exported.kind, exported.rows, agent_kind, exported.left_out, exported.answers)
    else:
        file, faults = read_row_file(path)
        if not faults:
            return Rows(RowKind(file.kind), [dict(row) for row in file.rows])
    raise UnusableRun(faults[:FAULTS_SHOWN])


def _kind_of(first: Mapping[str, Any]) -> RowKind | None:
    """Tells the kind of a file whose rows are taken as they are; the engine checks them."""
    if "environment" in first:
        return RowKind.TASKS
    if is_labelled(first):
        return RowKind.LABELLED
    return RowKind.LOGGED if {"options", "action"} <= first.keys() else None


def rows_of_agent(*, by: Actor, agent: Agent, kind: RowKind | None = None, method: str = "") -> Rows:
    """Its rewarded decisions, or what people said of them, frozen as a dataset of this kind, by default the one that
    its actions make; with decisions that nobody judged for a `method` that learns from them. Raises EmptyDataset."""
    name = f"manage.py train, {timezone.localtime():%-d %b %Y %H:%M:%S}"
    version = find_current_version(agent)
    own = shape_of(version).kind if version is not None else DatasetKind.LOGGED
    frozen_as = DatasetKind(kind) if kind is not None else own
    learns = method in TRAINING and TRAINING[method].learns_unjudged
    filters = Filters(unjudged=learns and frozen_as == DatasetKind.LOGGED)
    dataset = freeze_rows(by=by, agent=agent, name=name, kind=frozen_as, filters=filters)
    assert dataset.row_kind is not None
    lines = (artifact_path(dataset.artifact.digest) / ROWS_FILE).read_bytes().splitlines()
    return Rows(dataset.row_kind, [json.loads(line) for line in lines])


def train_here(asked: Training, plan: LocalPlan, output: Path, say: Callable[[str], None]) -> RunResult:
    """Trains into `output`: model/, adapter/ or classifier/, checkpoint-epoch-N/, and run/, the engine's own folder.

    A folder in which the same run was stopped goes on from its checkpoint. `say` gets progress and warnings. Raises
    UnusableRun before anything is written, Interrupted, or EngineFailed.
    """
    folder, result = run_here(
        plan.spec, plan.rows.files, output, say, plan.estimate.seconds if plan.estimate is not None else None
    )
    assert result.output is not None
    attempts = sorted(folder.parent.iterdir(), key=lambda attempt: int(attempt.name))  # some may have been stopped
    epochs = {epoch.name: epoch for attempt in attempts for epoch in attempt.glob("checkpoint-epoch-*")}
    for place in (folder / result.output, *epochs.values()):
        target = output / place.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place, target)
        _name_base(target, asked, result)
    return result


def run_here(
    spec: Mapping[str, Any],
    files: Mapping[str, Sequence[Mapping[str, Any]]],
    output: Path,
    say: Callable[[str], None],
    estimated_seconds: float | None = None,
) -> tuple[Path, RunResult]:
    """Runs the spec, with its files of rows by name, in `output`/run; the attempt's folder and what it found. As
    `train_here` it goes on where it was stopped, says what happens, and raises."""
    is_new = not output.exists()
    _lay_out(output, spec, files)
    leave_note(output.resolve() / RUN, estimated_seconds)
    try:
        folder = _run_engine(output.resolve() / RUN, say)
    except UnusableRun:
        if is_new:
            output.rmdir()
        raise
    return folder, RunResult.model_validate_json((folder / "result.json").read_text())


def _lay_out(output: Path, spec: Mapping[str, Any], files: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """run/spec.json and its rows; a folder that holds another run, or other things, is refused. What is left of a run
    that failed before it learnt anything is replaced."""
    content = json.dumps(spec, indent=2)
    output = output.resolve()
    told = output / RUN / "spec.json"
    if told.exists() and told.read_text() == content:
        return
    if _holds_nothing_learnt(output):
        shutil.rmtree(output / RUN, ignore_errors=True)
    if output.exists() and any(output.iterdir()):
        raise UnusableRun([f"--output: {output} is not empty; give an empty or new folder"])
    (output / RUN).mkdir(parents=True)
    for name, lines in files.items():
        (output / RUN / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_atomically(told, content)


def _holds_nothing_learnt(output: Path) -> bool:
    """Whether all that is there is a run without a result or a checkpoint, which no process works on."""
    if not (output / RUN / "spec.json").is_file() or [path.name for path in output.iterdir()] != [RUN]:
        return False
    made = [*(output / RUN).glob("attempts/*/result.json"), *(output / RUN).glob("attempts/*/checkpoint*/*")]
    return not made and has_ended(output / RUN)


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
        if event["kind"] == "started":
            say(f"on {event['device']}, {event['threads']} CPU threads")
        elif event["kind"] == "progress":
            say(f"{event['fraction']:4.0%}  {event['message']}")
        elif event["kind"] == "warning":
            say(f"warning: {event['message']}")
        elif event["kind"] == "failed":
            failed = event["error"]
    return failed


def _name_base(folder: Path, asked: Training, result: RunResult) -> None:
    """An adapter's folder tells peft what it belongs to; the card tells people what it began with."""
    base, config = absolute_base(asked.base), folder / "adapter_config.json"
    kind = ArtifactKind.ADAPTER if config.exists() else ArtifactKind.MODEL
    if TRAINING[result.method].makes_reward_model:
        kind = ArtifactKind.REWARD_MODEL
    if TRAINING[result.method].makes_classifier:
        kind = ArtifactKind.CLASSIFIER
    if config.exists():
        told = json.loads(config.read_text()) | {"base_model_name_or_path": base}
        write_atomically(config, json.dumps(told, indent=2))
    write_atomically(folder / CARD, card_of_folder(base, method=result.method, rows=result.rows, kind=kind))
