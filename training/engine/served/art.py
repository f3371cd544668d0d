"""OpenPipe ART's LocalBackend as what trains: episodes of an outside agent go to it with their own tokens.

    python -m training.engine.served.art RUN_DIR --out FOLDER [--step N] [--attempt N] [--export-only]

It writes `groups.jsonl`, the episodes of one update by task, and has ART train a LoRA adapter on them in an environment
of its own (art_driver.py), whose interpreter RECKONER_ART_PYTHON names. ART reads token ids and log-probabilities as
vLLM gives them, and takes them as they are. Its own base model is the run's, so the weights that acted have to be that
model: episodes of others are refused. Exit codes: 0 done, 1 ART failed, 2 something is missing or does not fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pydantic

from training.engine.environments.episodes import Step
from training.engine.environments.own_python import OwnPython
from training.engine.episodes.lines import EPISODES_FILE
from training.engine.served.transcripts import Answered, ServedEpisode, split_calls
from training.engine.spec.run_spec import RunSpec, read_spec

DRIVER = Path(__file__).with_name("art_driver.py")
GROUPS_FILE, RESULT_FILE = "groups.jsonl", "art_result.json"
PYTHON = OwnPython("RECKONER_ART_PYTHON", (3, 12), ("openpipe-art", "unsloth"), '"openpipe-art[backend]==0.5.23"')
NOT_FOR_ART = ("WANDB", "RECKONER", "PYTHON")
"""Variables that begin so are kept from it. With a key of Weights & Biases it would send what it learns from there."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call: what the model read before it, in whole, and what it wrote, with the log-probability of each token."""

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_p: tuple[float, ...]
    read: str
    wrote: str


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An episode for ART: a history of calls for each of its transcripts."""

    histories: tuple[tuple[Part, ...], ...]
    reward: float
    seed: int
    success: bool
    weights_hash: str


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The episodes of one task, which are compared with each other. A line of GROUPS_FILE."""

    task: str
    episodes: tuple[Told, ...]


class Unfit(ValueError):
    """The episodes cannot be trained on so."""


def group_episodes(episodes: Iterable[ServedEpisode]) -> list[Group]:
    """By task. Episodes with a fault, or without a call, are left out, and so is a task that has fewer than two others.
    Raises Unfit where nothing is left, or several weights acted."""
    by_task: defaultdict[str, list[Told]] = defaultdict(list)
    for one in episodes:
        if one.fault is None and one.transcripts and one.weights_hash is not None:
            steps = iter(one.trajectory)  # of all transcripts, one after the other
            histories = tuple(
                tuple(_part_of(call, next(steps)) for call in split_calls(part)) for part in one.transcripts
            )
            by_task[one.task].append(Told(histories, one.total_reward, one.seed, one.success, one.weights_hash))
    groups = [Group(task, tuple(told)) for task, told in by_task.items() if len(told) > 1]
    if not groups:
        raise Unfit("no task has two episodes without a fault")
    hashes = {told.weights_hash for group in groups for told in group.episodes}
    if len(hashes) > 1:
        raise Unfit(f"weights {' and '.join(sorted(hashes))} acted; give episodes of one update")
    return groups


def _part_of(answered: Answered, step: Step) -> Part:
    return Part(*answered, read=step.state, wrote=step.action)


def read_episodes(path: Path, step: int | None) -> tuple[int, list[ServedEpisode]]:
    """The episodes of an update, counted from 1, by default the last. Raises Unfit, and msgspec.ValidationError for
    lines that are none."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    known = sorted({line["step"] for line in lines})
    chosen = step or max(known, default=0)
    if chosen not in known:
        raise Unfit(f"{path.name} has no update {chosen}; it has {known[0]} to {known[-1]}" if known else "no episodes")
    taken = [line for line in lines if line.pop("step") == chosen]
    return chosen, [msgspec.convert(line, ServedEpisode) for line in taken]


def find_weights_fault(spec: RunSpec, acted: str, step: int) -> str | None:
    """Why ART's base model would be another than the weights that acted."""
    if spec.lora is not None:
        if step == 1 and spec.base.adapter is None:
            return None  # a fresh adapter changes nothing yet
        return f"an adapter acted in update {step}, and ART begins with the base: give --step 1 of a fresh adapter"
    import torch

    from training.engine.models.acting import ActingHash
    from training.engine.models.loading import load_for_training

    loaded = load_for_training(spec.base, None, torch.device("cpu"), freeze_embeddings=spec.freeze_embeddings)
    now = ActingHash(loaded).find()
    return None if now == acted else f"weights {acted} acted in update {step}, and base.path has {now}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        spec, groups = _read(options.run_dir, options.attempt, options.step)
    except (Unfit, OSError, ValueError, msgspec.MsgspecError, pydantic.ValidationError) as error:
        return _refuse([str(error)])
    if not options.export_only and (missing := PYTHON.find_missing()):
        return _refuse(missing)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / GROUPS_FILE).open("wb") as file:
        file.writelines(msgspec.json.encode(group) + b"\n" for group in groups)
    if options.export_only:
        return 0
    asked = {
        "groups": str((options.out / GROUPS_FILE).resolve()),
        "result": str((options.out / RESULT_FILE).resolve()),
        "path": str((options.out / "art").resolve()),
        "base_model": spec.base.path,
        "name": spec.run_id,
        "learning_rate": options.learning_rate,
    }
    around = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_ART)}
    ended = subprocess.run(  # noqa: S603 - the interpreter that the operator named
        [PYTHON.path, "-P", str(DRIVER)],
        cwd=options.out,
        env=around | {"WANDB_MODE": "disabled"},
        input=json.dumps(asked).encode() + b"\n",
        check=False,
    )
    if ended.returncode:
        sys.stderr.write(f"ART ended with {ended.returncode}\n")
        return 1
    sys.stdout.write((options.out / RESULT_FILE).read_text())
    return 0


def _read(run_dir: Path, attempt: int | None, step: int | None) -> tuple[RunSpec, list[Group]]:
    spec = read_spec(run_dir)
    if spec.sampling.temperature != 1:
        raise Unfit("sampling.temperature: ART only takes log-probabilities at temperature 1")
    known = [int(path.parent.name) for path in (run_dir / "attempts").glob(f"*/{EPISODES_FILE}")]
    if not known:
        raise Unfit(f"{run_dir} has no attempt with {EPISODES_FILE}: start it with --agent first")
    chosen, episodes = read_episodes(run_dir / "attempts" / str(attempt or max(known)) / EPISODES_FILE, step)
    groups = group_episodes(episodes)
    if fault := find_weights_fault(spec, groups[0].episodes[0].weights_hash, chosen):
        raise Unfit(fault)
    return spec, groups


def _refuse(faults: Sequence[str]) -> int:
    sys.stderr.write("".join(f"{fault}\n" for fault in faults))
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.engine.served.art",
        description="Trains with OpenPipe ART on the episodes of an update in which an outside agent acted.",
        epilog=f"{PYTHON.variable} names the interpreter of ART's environment. Exit codes: 0 done, 1 ART failed, 2 "
        "something is missing or does not fit.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path)
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="folder for the results")
    parser.add_argument("--step", metavar="N", type=int, help="number of the update, from 1 (default: the last)")
    parser.add_argument("--attempt", metavar="N", type=int, help="number of the run's attempt (default: the last)")
    parser.add_argument(
        "--learning-rate", type=float, default=5e-6, help="ART's learning rate (default 5e-6, as in ART)"
    )
    parser.add_argument("--export-only", action="store_true", help=f"only write {GROUPS_FILE}; do not train")
    return parser


if __name__ == "__main__":
    sys.exit(main())
