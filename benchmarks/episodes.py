"""Learning by acting: a base that has seen demonstrations, and GRPO over its own episodes, on tasks it has not seen.

    python -m benchmarks.episodes [--environment NAME] [--seeds 0 1 2] [--ways return_to_go episode …] [--quick]

For each seed a tiny model is made from demonstrations of a worker who takes 15 % of its steps at random. From this base
the engine's `grpo` acts on tasks with the weights in training. Base and trained model then act once on each of the
held-out tasks, by sampling. Prints how many they solved, the paired difference with its interval (95 %, clustered by
template), the same by domain, the steps an episode, and the seconds of both trainings; checks that the hash of every
trajectory is that of the weights that acted. Ways to learn: GRPO with either credit; with return-to-go and the order of
tasks that a curriculum gives, `easy_first` or `uncertain`; and `reward_weighted`, which imitates what the base itself
did by what it earned. Only return-to-go in random order is held to bounds. Beside the gain of every other way stands
the paired difference to it, where it was run before. `--quick`: one seed, few updates. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec

from tools.report import Report, log
from training.engine.environments.demonstrations import demonstrate
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.episodes.credit import Credit
from training.engine.spec.settings import CurriculumOrder
from training.evaluation.paired_tasks import PairedTasks, read_paired_tasks

ROOT = Path(__file__).resolve().parents[1]
RETURN_TO_GO, REWARD_WEIGHTED = "return_to_go", "reward_weighted"
WAYS = (*get_args(Credit), *get_args(CurriculumOrder), REWARD_WEIGHTED)
APART = 1_000_000
"""Between the numbers of one seed's tasks and another's."""


@dataclass(frozen=True, slots=True)
class World:
    """How one environment is learnt. `base` is the range in which the base's share of solved tasks is to lie, `gain`
    what training is to add at least; `others`: environments of templates that no training task has, only told."""

    demonstrations: int
    pretrain: Mapping[str, Any]
    vocabulary: int
    prompt_tokens: int
    learning_rate: float
    online: Mapping[str, Any]
    gain: float
    base: tuple[float, float] = (0.0, 1.0)
    minutes: float | None = None
    held_out: int = 400
    first_held_out: int = 0
    option_tokens: bool = False
    others: tuple[str, ...] = ()


WORLDS: Mapping[str, World] = {
    "equations": World(
        demonstrations=400,
        pretrain={"learning_rate": 3e-3, "epochs": 6},
        vocabulary=600,
        option_tokens=True,
        prompt_tokens=96,
        learning_rate=2e-3,
        online={"steps": 180, "prompts_per_step": 8, "group": 8, "gamma": 0.95, "kl": 0.0},
        gain=0.30,
        first_held_out=20_000,  # the earlier ones were looked at with 120 updates
    ),
    "office": World(
        demonstrations=500,
        pretrain={"learning_rate": 3e-3, "epochs": 6},
        vocabulary=2000,
        prompt_tokens=256,
        learning_rate=2e-3,
        online={"steps": 60, "prompts_per_step": 8, "group": 8, "gamma": 0.95, "kl": 0.0, "alarms": {"every": 15}},
        gain=0.20,
        base=(0.15, 0.35),
        minutes=15.0,
        held_out=312,
        first_held_out=20_000,  # the earlier ones were looked at while the office was made
        others=("office-unseen",),
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run of the engine."""

    attempt: Path
    result: Mapping[str, Any]
    seconds: float
    cpu_seconds: float

    @property
    def model(self) -> Path:
        return self.attempt / "model"


def run_engine(folder: Path, spec: Mapping[str, Any], **data: Sequence[Any]) -> Run:
    """The engine as a process of its own, with one thread. Raises CalledProcessError where it failed."""
    folder.mkdir(parents=True)
    for name, rows in data.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    full = {"run_id": folder.name, "threads": 1, "samples": 0, "checkpoint_every_seconds": 300, **spec}
    full["data"] = {name: f"{name}.jsonl" for name in data} | spec.get("data", {})
    (folder / "spec.json").write_text(json.dumps(full))
    began, command = time.monotonic(), [sys.executable, "-m", "training.engine", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    attempt = folder / "attempts" / "1"
    result = json.loads((attempt / "result.json").read_text())
    return Run(attempt, result, time.monotonic() - began, used.ru_utime + used.ru_stime)


def make_base(place: Path, environment: str, world: World, seed: int) -> Run:
    tasks = list(draw_tasks(find_environment(environment), world.demonstrations, "train", first=seed * APART))
    spec = {
        "method": "pretrain",
        "seed": seed,
        "base": {"tiny": {"vocabulary": world.vocabulary}},
        "max_prompt_tokens": world.prompt_tokens,
        "optimiser": {"batch_size": 64, **world.pretrain},
        "pretrain": {"calibration_share": 0.1, "option_tokens": world.option_tokens},
        "text_weight": 0.0,
    }
    return run_engine(place / f"base-{seed}", spec, train=list(demonstrate(tasks, wrong=0.15, seed=seed)))


def learn(place: Path, environment: str, world: World, seed: int, base: Run, way: str, steps: int) -> Run:
    """Every way acts on the same tasks, in as many episodes of each."""
    first = seed * APART + world.demonstrations
    count = steps * int(world.online["prompts_per_step"])
    tasks = list(draw_tasks(find_environment(environment), count, "train", first=first))
    if way == REWARD_WEIGHTED:
        how = {"method": way, "reward_weighted": {"episodes": world.online["group"]}}
    else:
        own = {"credit": way} if way in get_args(Credit) else {"curriculum": {"order": way}}
        how = {"method": "grpo", "online": {**world.online, "steps": steps, **own}}
    spec = {
        **how,
        "seed": seed,
        "base": {"path": str(base.model)},
        "max_prompt_tokens": world.prompt_tokens,
        "optimiser": {"learning_rate": world.learning_rate, "batch_size": 64},
        "evaluate": {"free_rows": 0},
        "data": {"rows": "tasks"},
    }
    return run_engine(place / f"{way}-{seed}", spec, train=tasks, heldout=held_out_tasks(environment, world))


def held_out_tasks(environment: str, world: World) -> list[Task]:
    return list(draw_tasks(find_environment(environment), world.held_out, "heldout", first=world.first_held_out))


def measure_others(place: Path, world: World, models: Mapping[str, Path]) -> dict[str, Any]:
    """The share of solved tasks of other environments, by model."""
    told: dict[str, Any] = {}
    for name in world.others:
        tasks = held_out_tasks(name, world)
        told[name] = {}
        for which, model in models.items():
            spec = {
                "method": "evaluate",
                "base": {"path": str(model)},
                "max_prompt_tokens": world.prompt_tokens,
                "data": {"heldout_rows": "tasks"},
            }
            run = run_engine(place / f"{name}-{which}", spec, heldout=tasks)
            told[name][which] = run.result["scores"]["base"]["accuracy"]
    return told


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def compare(paired: PairedTasks, tasks: Sequence[str]) -> list[float]:
    """How many more of the tasks the trained model solved than the base: mean and interval."""
    gain = paired.gain("accuracy", tasks)
    return [round(value, 4) for value in (gain.mean, gain.low, gain.high)]


def compare_ways(paired: PairedTasks, other: PairedTasks) -> list[float]:
    """How many more tasks were solved than by what another way of training the same base made."""
    trained = {"trained": paired.predictions["trained"], "base": other.predictions["trained"]}
    both = sorted(set(paired.tasks) & set(other.tasks))
    return compare(PairedTasks(both, trained), both)


def measure(run: Run, paired: PairedTasks) -> dict[str, Any]:
    """Base against trained on the held-out tasks that both could act on."""

    scores = run.result["scores"]
    return {
        "base": scores["base"]["accuracy"],
        "trained": scores["trained"]["accuracy"],
        "gain": compare(paired, paired.tasks),
        "tasks": len(paired.tasks),
        "domains": {name: compare(paired, tasks) for name, tasks in paired.tasks_by("domain").items()},
        "episodes": {which: scores[which]["episodes"] for which in ("base", "trained")},
    }


def check_hashes(base: Run, run: Run, updates: int) -> list[str]:
    """What is wrong with the hashes of the trajectories: each update acts with weights of its own, the first with the
    base's, and what is measured acts with those of the base and of the saved model."""
    from training.engine.models.loading import weights_sha256 as hash_of

    by_step: defaultdict[int, set[str]] = defaultdict(set)
    for line in read_lines(run.attempt / "training_episodes.jsonl"):
        by_step[line["step"]].add(line["weights_hash"])
    measured: defaultdict[str, set[str]] = defaultdict(set)
    for line in read_lines(run.attempt / run.result["episodes"]):
        measured[line["model"]].add(line["weights_hash"])
    before, after = hash_of(base.model), hash_of(run.model)
    faults = [f"update {step} acted with {len(found)} weights" for step, found in by_step.items() if len(found) != 1]
    if len(set.union(*by_step.values())) != updates:
        faults.append("two updates acted with the same weights")
    if by_step[1] != {before}:
        faults.append("the first update did not act with the base's weights")
    if dict(measured) != {"base": {before}, "trained": {after}}:
        faults.append("the held-out episodes are not those of the base and the saved model")
    return faults


def learn_in_ways(
    environment: str, world: World, seed: int, ways: Sequence[str], steps: int
) -> dict[str, dict[str, Any]]:
    """What each way makes of one base."""
    found: dict[str, dict[str, Any]] = {}
    by_return: PairedTasks | None = None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        base = make_base(place, environment, world, seed)
        log(f"seed {seed}: base {base.cpu_seconds:.0f} CPU s")
        for way in ways:
            run = learn(place, environment, world, seed, base, way, steps)
            paired = read_paired_tasks(run.attempt / run.result["predictions"])
            told = found[way] = measure(run, paired) | {
                "cpu_seconds": [round(base.cpu_seconds), round(run.cpu_seconds)],
                "minutes": (base.seconds + run.seconds) / 60,
                "hashes": "; ".join(check_hashes(base, run, 1 if way == REWARD_WEIGHTED else steps)),
            }
            if way == RETURN_TO_GO:
                by_return = paired
            elif by_return is not None:
                told["more"] = compare_ways(paired, by_return)
            told["others"] = measure_others(place / f"others-{way}", world, {"base": base.model, "trained": run.model})
            log(json.dumps({"seed": seed, "way": way, **told}))
    return found


def show(report: Report, environment: str, world: World, seed: int, way: str, told: Mapping[str, Any]) -> None:
    """Credit by return-to-go is held to the bounds; the other ways are told."""
    name = f"{environment}, seed {seed}, {way}"
    mean, low, high = told["gain"]
    bounded = way == RETURN_TO_GO
    report.add(
        f"{name}: {told['base']:.3f} → {told['trained']:.3f} of {told['tasks']} unseen solved",
        bound=f"gain ≥ {world.gain:.2f}, interval above 0" if bounded else "",
        figure=f"{mean:+.3f} ({low:+.3f} to {high:+.3f})",
        passed=not bounded or (mean >= world.gain and low > 0),
    )
    if not bounded:
        if "more" in told:
            mean, low, high = told["more"]
            figure = f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
            report.add(f"{name}: more than {RETURN_TO_GO}", bound="", figure=figure, passed=True)
        return
    least, most = world.base
    worse = [domain for domain, gain in told["domains"].items() if gain[2] < 0]
    report.add(f"{name}: base", bound=f"{least} to {most}", figure=told["base"], passed=least <= told["base"] <= most)
    report.add(f"{name}: domains shown worse", bound="none", figure=", ".join(worse) or "none", passed=not worse)
    hashes = told["hashes"]
    report.add(f"{name}: every trajectory's hash", bound="the actor's", figure=hashes or "is", passed=not hashes)
    if world.minutes is not None:
        in_time = told["minutes"] <= world.minutes
        report.add(f"{name}: minutes", bound=f"≤ {world.minutes:g}", figure=f"{told['minutes']:.1f}", passed=in_time)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", choices=WORLDS, default="equations")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[RETURN_TO_GO])
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="seeds side by side, a core each (1)")
    parser.add_argument("--quick", action="store_true", help="one seed and few updates: no bound holds")
    options = parser.parse_args()
    world, environment = WORLDS[options.environment], options.environment
    steps = 6 if options.quick else int(world.online["steps"])
    report = Report(f"episodes {environment}")
    seeds = options.seeds[:1] if options.quick else options.seeds

    def run_ways(seed: int) -> dict[str, dict[str, Any]]:
        return learn_in_ways(environment, world, seed, options.ways, steps)

    with ThreadPoolExecutor(options.at_once) as pool:
        for seed, found in zip(seeds, pool.map(run_ways, seeds), strict=True):
            for way, told in found.items():
                show(report, environment, world, seed, way, told)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
