"""`python -m training.engine RUN_DIR`: reads the arguments, the spec and the data, claims an attempt, and runs it.

Several processes, as `accelerate launch --multi_gpu` starts them, run it together (training.engine.machine.processes).

All faults of the spec and the data are reported before anything is written and before torch is imported. Exit codes: 0
done, 1 failed, 2 the spec, the data or the arguments are not usable, 75 stopped on request (a checkpoint was left; run
it again to go on).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

import pydantic

from training.engine.attempt.stop import StopFlag, Stopped
from training.engine.data.reading import DataError, RunData, read_data
from training.engine.environments.outside import BadAgent, OutsideAgent, UnknownAgent, find_agent
from training.engine.machine.facts import this_machine, why_no_quantisation
from training.engine.machine.launch import LIBRARIES, count_processes, find_launch_faults, is_main_process
from training.engine.spec.architectures import find_target_fault, read_model_type
from training.engine.spec.export_formats import find_kind_faults, find_missing_packages, find_shape_faults
from training.engine.spec.methods import RowKind
from training.engine.spec.refused import Refused
from training.engine.spec.run_spec import (
    CLASSIFIER,
    EXIT_BAD_SPEC,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_STOPPED,
    REWARD_MODEL,
    ModelSource,
    RunSpec,
    find_reward_faults,
    read_spec,
)


class BadRun(Exception):
    """The run cannot be started. `faults` lists every reason."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.engine",
        description="Trains, evaluates or exports a model as RUN_DIR/spec.json says, into RUN_DIR/attempts/<n>/.",
        epilog="Exit codes: 0 done, 1 failed, 2 bad spec or data, 75 stopped on request, to be resumed.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path)
    parser.add_argument(
        "--attempt", type=int, metavar="N", help="number of this attempt (default: one more than the last)"
    )
    parser.add_argument("--supervised", action="store_true", help="save a checkpoint and stop when standard input ends")
    parser.add_argument(
        "--agent", metavar="NAME", help="agent that acts on grpo's tasks through a base URL (docs/adapters.md)"
    )
    options = parser.parse_args(arguments)
    stop = StopFlag()
    stop.watch_signals()
    if options.supervised:
        stop.watch_stdin()
    try:
        agent = find_acting(options.agent)
        spec, data = read_run(options.run_dir, agent)
        if faults := find_launch_faults(spec, os.environ):
            raise BadRun(faults)
        os.environ.update({**LIBRARIES, **os.environ})
        claim = claim_together if count_processes(os.environ) > 1 else claim_attempt
        number, folder = claim(options.run_dir, options.attempt)
    except BadRun as error:
        if is_main_process(os.environ):
            print(json.dumps({"error": "bad_spec", "faults": error.faults}), file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SPEC
    return _work(spec, data, number, folder, stop, agent)


def find_acting(name: str | None) -> OutsideAgent | None:
    """The agent of this name, able to act here. Raises BadRun with what is missing."""
    if name is None:
        return None
    try:
        agent = find_agent(name)
    except (UnknownAgent, BadAgent) as error:
        raise BadRun([f"--agent: {error}"]) from error
    if missing := agent.find_missing():
        raise BadRun([f"--agent {name}: {lack}" for lack in missing])
    return agent


def find_acting_faults(spec: RunSpec) -> list[str]:
    """Why an outside agent cannot act in a run with this spec."""
    faults = []
    if spec.method != "grpo" or spec.train_rows is not RowKind.TASKS:
        faults.append("method: an agent only acts on the tasks of grpo; give method grpo and data.rows tasks")
    if spec.online.curriculum is not None:
        faults.append("online.curriculum: an agent's tasks come in random order; leave it out")
    if spec.sampling.top_k or spec.sampling.top_p < 1:
        faults.append("sampling: tokens that top_k and top_p leave out cannot be learnt; give neither")
    return faults


def read_run(run_dir: Path, agent: OutsideAgent | None = None) -> tuple[RunSpec, RunData]:
    """The spec and every row it names. Raises BadRun with all faults."""
    try:
        spec = read_spec(run_dir)
    except OSError as error:
        raise BadRun([f"spec.json: {error.strerror or error}"]) from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRun([f"spec.json: {error}"]) from error
    except pydantic.ValidationError as error:
        raise BadRun([fault for detail in error.errors() for fault in _faults(detail)]) from error
    faults = [f"base.{fault}" for fault in _find_folder_faults(spec.base)]
    faults += [
        f"base: {folder} is a reward model, which scores texts and is not a policy"
        for folder in (spec.base.path, spec.base.adapter)
        if folder is not None and (Path(folder) / REWARD_MODEL).is_file()
    ]
    faults += _find_target_faults(spec)
    faults += [f"reward: {fault}" for fault in find_reward_faults(spec)]
    for source in (component.source for component in spec.reward if component.source is not None):
        faults += [f"reward.source.{fault}" for fault in _find_folder_faults(source)]
        if not (Path(source.adapter or source.path or "") / REWARD_MODEL).is_file():
            faults.append(
                f"reward.source: {source.adapter or source.path} is not a reward model: it has no {REWARD_MODEL}"
            )
    faults += find_acting_faults(spec) if agent is not None else []
    if spec.export is not None:
        format, classifies = (
            spec.export.format,
            (Path(spec.base.adapter or spec.base.path or "") / CLASSIFIER).is_file(),
        )
        kind = find_kind_faults(format, is_classifier=classifies)
        shape = [] if classifies else find_shape_faults(format, read_model_type(Path(spec.base.path or "")))
        faults += [f"export.format: {fault}" for fault in [*kind, *find_missing_packages(format), *shape]]
        faults += (
            ["export.cache: a classifier reads whole texts; leave it out"] if classifies and spec.export.cache else []
        )
    missing = spec.trains_by.find_missing(spec.train_rows)
    faults += [] if missing is None else [f"method: {missing}"]
    if spec.quantisation is not None and (lack := why_no_quantisation(this_machine())):
        faults.append(f"quantisation: {lack}")
    data = RunData()
    try:
        data = read_data(spec, run_dir, agent)
    except DataError as error:
        faults += error.faults
    if faults:
        raise BadRun(faults)
    return spec, data


def _find_folder_faults(source: ModelSource) -> list[str]:
    """What a folder lacks that is named as a model or an adapter."""
    return [
        f"{name}: no such folder: {path}" if not Path(path).is_dir() else f"{name}: {path} has no {config}"
        for name, path, config in (
            ("path", source.path, "config.json"),
            ("adapter", source.adapter, "adapter_config.json"),
        )
        # A hub id has one slash at most and no dot in front; anything else is meant as a folder.
        if path is not None and path.startswith(("/", ".")) and not _has_one(Path(path), config, CLASSIFIER)
    ]


def _has_one(folder: Path, *names: str) -> bool:
    return any((folder / name).is_file() for name in names)


def _find_target_faults(spec: RunSpec) -> list[str]:
    """Why no new adapter can be on the base, as far as the table of architectures tells."""
    if spec.lora is None or spec.base.path is None or spec.base.adapter is not None:
        return []
    fault = find_target_fault(read_model_type(Path(spec.base.path)), spec.lora.targets)
    return [f"lora.targets: {fault[0]}; right would be {fault[1]}"] if fault is not None else []


def claim_attempt(run_dir: Path, number: int | None) -> tuple[int, Path]:
    """Makes the attempt's folder, which no other process can then claim. Raises BadRun if it exists already."""
    attempts = run_dir / "attempts"
    attempts.mkdir(exist_ok=True)
    known = [int(path.name) for path in attempts.iterdir() if path.name.isdigit()]
    chosen = number if number is not None else max(known, default=0) + 1
    if chosen < 0:
        raise BadRun([f"--attempt: {chosen} is negative"])
    try:
        (attempts / str(chosen)).mkdir()
    except FileExistsError as error:
        raise BadRun([f"--attempt: {chosen} was begun already; an attempt's folder is never shared"]) from error
    return chosen, attempts / str(chosen)


def claim_together(run_dir: Path, number: int | None) -> tuple[int, Path]:
    """As `claim_attempt`, by the main one of several processes for all of them."""
    from training.engine.machine.processes import join_processes

    processes = join_processes()
    told: tuple[int, Path] | list[str] = []
    if processes.is_main:
        try:
            told = claim_attempt(run_dir, number)
        except BadRun as error:
            told = error.faults
    told = processes.from_main(told)
    if isinstance(told, list):
        raise BadRun(told)
    return told


def _work(spec: RunSpec, data: RunData, number: int, folder: Path, stop: StopFlag, agent: OutsideAgent | None) -> int:
    from training.engine.attempt.events import Events

    events = Events(folder / "events.jsonl" if is_main_process(os.environ) else Path(os.devnull))
    try:
        # Seconds of imports, which a bad spec should not have to wait for.
        from training.engine.attempt.attempt import Attempt
        from training.engine.machine.hardware import choose_device, set_threads
        from training.engine.machine.processes import join_processes
        from training.engine.models.loading import silence_progress_bars
        from training.engine.run import run_attempt

        silence_progress_bars()
        threads = set_threads(spec.threads)
        attempt = Attempt(spec, number, folder, choose_device(), events, stop, processes=join_processes(), agent=agent)
        result = run_attempt(attempt, data, threads)
        if result is not None:
            events.write("finished", result=result.model_dump(mode="json"))
    except Stopped as stopped:
        events.write("stopped", reason=stopped.reason, step=stopped.step)
        return EXIT_STOPPED
    except Refused as error:
        events.write("failed", error=str(error))
        if is_main_process(os.environ):
            print(json.dumps({"error": "bad_spec", "faults": [str(error)]}), file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SPEC
    except Exception as error:  # noqa: BLE001 - the last line of defence: whatever it was is written down
        if stop.reason is not None and count_processes(os.environ) > 1:
            # Another process has stopped before this one looked, and was missed at the next thing done together.
            events.write("stopped", reason=stop.reason)
            return EXIT_STOPPED
        events.write("failed", error=f"{type(error).__name__}: {error}")
        traceback.print_exc()
        return EXIT_FAILED
    finally:
        events.close()
    return EXIT_OK  # a process group ends with its process


def _faults(detail: object) -> list[str]:
    """'where: what' for one of pydantic's errors; the spec's own checks say several, one a line."""
    assert isinstance(detail, dict)
    where = ".".join(str(part) for part in detail["loc"])
    message = str(detail["msg"]).removeprefix("Value error, ")
    return [f"{where}: {message}"] if where else message.splitlines()


if __name__ == "__main__":
    sys.exit(main())
