"""An agent of OpenHands' SDK acts on a tiny model's weights, which learn by GRPO from what its episodes earned.

    python -m benchmarks.outside_agents --python FILE [--data DIR] [--seeds 0 1 2] [--quick]

`--python` names an interpreter that has the SDK (by default the variable RECKONER_OPENHANDS_PYTHON): docs/adapters.md
says how to make one. The agent is `openhands` as it comes, with its own prompt, terminal and editor; its tasks are
those of benchmarks.openhands_world. For each seed a tiny base learns from 100 conversations of a worker who is wrong in
a part of them. `python -m training.engine RUN --agent openhands` then trains it on other tasks, each graded by its
folder's own program. Before and after, the agent acts once on each of the held-out tasks: as in training, by drawing
every token (serving), and with the likeliest token each time (greedy). Prints both shares of solved tasks with the
paired difference, and checks that every call went on with the tokens of the one before it. `--quick`: one seed, few
updates, no bounds. The last line is a JSON object.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch

from benchmarks.engine_runs import Query, Runs, make_parser, parse, read_queries
from benchmarks.openhands_world import FOLDERS, Teaching, demonstrate, make_base, write_folder
from models_registry.statistics.intervals import Interval, paired_difference
from tools.report import Report, log
from training.engine.attempt.attempt import Attempt
from training.engine.attempt.events import Events
from training.engine.attempt.stop import StopFlag
from training.engine.environments.openhands import OpenHands
from training.engine.environments.tasks import Task
from training.engine.models.loading import Loaded, load_model, load_tokenizer
from training.engine.served.rollouts import act_once
from training.engine.spec.run_spec import RunSpec, TinyShape

VARIABLE = "RECKONER_OPENHANDS_PYTHON"
GREEDY = 5e-4
"""A temperature so low that the likeliest token is drawn."""
GAIN = 0.1


class Sizes(NamedTuple):
    demonstrations: int
    epochs: int
    steps: int
    held_out: int
    wrong: float = 0.25
    prompts_per_step: int = 3
    group: int = 8
    learning_rate: float = 2e-3


WHOLE = Sizes(demonstrations=60, epochs=30, steps=16, held_out=40)
QUICK = Sizes(demonstrations=24, epochs=20, steps=2, held_out=8)


class Measured(NamedTuple):
    """Of one seed, by held-out task: whether it was solved, without those that failed. `faults`: of the training's
    episodes that failed; `broken`: calls that did not go on with the tokens of the one before."""

    before: Mapping[str, Mapping[str, bool]]
    after: Mapping[str, Mapping[str, bool]]
    rewards: Sequence[float]
    episodes: int
    faults: int
    broken: int
    minutes: float


def spec_of(sizes: Sizes, base: Path) -> dict[str, Any]:
    return {
        "base": {"path": str(base)},
        "max_prompt_tokens": 600,
        "max_completion_tokens": 40,
        "optimiser": {"learning_rate": sizes.learning_rate, "batch_size": 32},
        "online": {
            "steps": sizes.steps,
            "prompts_per_step": sizes.prompts_per_step,
            "group": sizes.group,
            "kl": 0.0,
            "alarms": None,
        },
        "evaluate": {},
        "data": {"rows": "tasks"},
    }


def act_greedily(
    agent: OpenHands, folder: Path, spec: Mapping[str, Any], model: Path, tasks: Sequence[Task]
) -> dict[str, bool]:
    """Whether each task was solved with the likeliest token at every place."""
    folder.mkdir()
    data = {"train": "train.jsonl", "rows": "tasks"}
    cold = {
        **spec,
        "evaluate": None,
        "run_id": "greedy",
        "method": "grpo",
        "data": data,
        "sampling": {"temperature": GREEDY},
    }
    events = Events(folder / "events.jsonl")
    try:
        attempt = Attempt(RunSpec.model_validate(cold), 1, folder, torch.device("cpu"), events, StopFlag())
        loaded = Loaded(load_model(model, attempt.device).eval(), load_tokenizer(model))
        acted = act_once(attempt, agent, loaded, tasks)
    finally:
        events.close()
    return {one.task: one.success for one in acted if one.fault is None}


def learn(place: Path, queries: Sequence[Query], sizes: Sizes, seed: int) -> Measured:
    """One seed, all of it."""
    began = time.monotonic()
    torch.set_num_threads(1)
    rng = random.Random(seed)
    taught, count = sizes.demonstrations, sizes.steps * sizes.prompts_per_step
    chosen = rng.sample(list(queries), taught + count + sizes.held_out)
    agent = OpenHands()
    conversations = demonstrate(agent, place / "taught", chosen[:taught], sizes.wrong, seed)
    how = Teaching(TinyShape(hidden=64, vocabulary=1000, max_positions=1024), sizes.epochs)
    losses = make_base(conversations, how, place / "base", seed)
    log(f"seed {seed}: base after {time.monotonic() - began:.0f} s, loss {losses[-1]:.4f}")
    tasks = [write_folder(place / "tasks" / f"{n}", query) for n, query in enumerate(chosen[taught:])]
    train, held_out = tasks[:count], tasks[count:]
    spec = spec_of(sizes, place / "base")
    rows = {
        name: [msgspec.to_builtins(task) for task in part] for name, part in (("train", train), ("heldout", held_out))
    }
    done = Runs(place, seed).run("openhands", "grpo", spec, arguments=["--agent", "openhands"], **rows)
    serving: dict[str, dict[str, bool]] = {"base": {}, "trained": {}}
    for line in (done.attempt / "predictions.jsonl").read_text().splitlines():
        prediction = json.loads(line)
        serving[prediction["model"]][prediction["id"]] = prediction["correct"]
    greedy = {
        which: act_greedily(agent, place / f"greedy-{which}", spec, model, held_out)
        for which, model in (("base", place / "base"), ("trained", done.output))
    }
    episodes = [json.loads(line) for line in (done.attempt / "training_episodes.jsonl").read_text().splitlines()]
    sound = [one for one in episodes if one["fault"] is None]
    return Measured(
        before={"serving": serving["base"], "greedy": greedy["base"]},
        after={"serving": serving["trained"], "greedy": greedy["trained"]},
        rewards=[_mean([one["total_reward"] for one in sound if one["step"] == n + 1]) for n in range(sizes.steps)],
        episodes=len(episodes),
        faults=len(episodes) - len(sound),
        broken=sum(len(one["transcripts"]) > 1 for one in sound),
        minutes=(time.monotonic() - began) / 60,
    )


def compare(before: Mapping[str, bool], after: Mapping[str, bool]) -> Interval:
    """How many more of the tasks are solved, paired by task."""
    both = sorted(before.keys() & after.keys())
    values = [[float(solved[task]) for task in both] for solved in (after, before)]
    return paired_difference(*values, both).within(-1.0, 1.0)


def show(report: Report, seed: int, found: Measured, *, bounded: bool) -> None:
    for policy in ("serving", "greedy"):
        before, after = found.before[policy], found.after[policy]
        gain = compare(before, after)
        held = bounded and policy == "serving"
        shares = f"{_mean(before.values()):.3f} → {_mean(after.values()):.3f}"
        report.add(
            f"seed {seed}, {policy}: {shares} of {len(after)} unseen solved",
            bound=f"gain >= {GAIN}, interval above 0" if held else "",
            figure=f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})",
            passed=not held or (gain.mean >= GAIN and gain.low > 0),
        )
    report.add(
        f"seed {seed}: calls that broke their conversation, of {found.episodes} episodes",
        bound="0",
        figure=found.broken,
        passed=not found.broken,
    )
    report.add(f"seed {seed}: episodes that failed", bound="0", figure=found.faults, passed=not found.faults)
    log(f"seed {seed}: {found.minutes:.1f} minutes; reward by update {[round(value, 2) for value in found.rewards]}")


def _mean(values: Any) -> float:
    known = [float(value) for value in values]
    return sum(known) / len(known) if known else float("nan")


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, few updates: no bound holds")
    parser.add_argument("--python", default=os.environ.get(VARIABLE, ""), help=f"by default {VARIABLE}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parse(parser, "clinc150")
    os.environ[VARIABLE] = options.python
    if missing := OpenHands().find_missing():
        parser.error("; ".join(missing))
    queries = [query for query in read_queries(options.data) if query.domain in FOLDERS]
    report, sizes = Report("outside_agents"), QUICK if options.quick else WHOLE
    seeds: dict[int, Any] = {}
    for seed in options.seeds[:1] if options.quick else options.seeds:
        with tempfile.TemporaryDirectory(prefix="reckoner-bench-") as folder:
            found = learn(Path(folder), queries, sizes, seed)
        show(report, seed, found, bounded=not options.quick)
        seeds[seed] = found._asdict() | {
            name: {policy: _mean(solved.values()) for policy, solved in shares.items()}
            for name, shares in (("before", found.before), ("after", found.after))
        }
    return report.finish(seeds=seeds)


if __name__ == "__main__":
    sys.exit(main())
