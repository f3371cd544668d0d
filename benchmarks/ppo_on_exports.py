"""PPO on the notes app's own export, by the commands as its guide has them: improved, or why not.

    python -m benchmarks.ppo_on_exports [--data DIR] [--agents FILER,PRIORITIZER] [--quick]

An outside policy, whose probabilities nobody knows, decides on CLINC150's queries: FILER has each of status, swimlane
and priority right in 75 %, by the rule of benchmarks/methods.py; PRIORITIZER recommends one of four queries, in 55 %
the one whose domain comes first in the alphabet. People confirm what is right and correct what is wrong, err in 5 % and
say nothing in 15 %; of a first part they say everything, rightly. For each of three seeds (one smaller with --quick)
decisions and verdicts go into a database of the benchmark's own, and then only commands run: `calculate_rewards`,
`export_training_data` and `train`. A tiny model learns from the export of the first part; from it `train` starts on the
export of the rest, without `--method`, which means PPO, with `posterior`, which learns from the same rewards, and with
`sft`, which learns from the right options that confirmations and corrections name.

What decides is the share of held-out queries that the model's likeliest option is right for; the reward model that paid
has no part in it. Prints a row per figure, by seed, with the 95 % interval of the paired difference to the model before
training, clustered by intent (of PRIORITIZER by list), and one JSON object as the last line.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_runs import Query, Rows, Runs, make_parser, parse, read_queries
from benchmarks.methods import FIELDS, FULL, SILENT, WRONG, file_note
from benchmarks.own_database import own_database
from decisions.agents.canonical import canonical
from models_registry.statistics.intervals import paired_difference
from tools.report import Report, log

FIELD_RIGHT, CHOICE_RIGHT, LIST = 0.75, 0.55, 4
DOMAINS = sorted(FULL)
BASE = {"epochs": 10, "batch-size": 64, "learning-rate": 3e-3}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"epochs": 6, "batch-size": 64, "learning-rate": 1e-3},
    "posterior": {"epochs": 6, "batch-size": 64, "learning-rate": 2e-3},
    "sft": {"epochs": 6, "batch-size": 64, "learning-rate": 2e-3},
}
"""Options of `train` by method; none was tuned here (benchmarks/methods.py has the same)."""


class Sizes(NamedTuple):
    seeds: int
    first: int
    rest: int
    held_out: int


WHOLE, QUICK = Sizes(3, 400, 1_000, 500), Sizes(1, 150, 300, 200)


class Case(NamedTuple):
    """What was asked, what the outside policy did, what is right; `group` for the intervals."""

    state: dict[str, Any]
    action: dict[str, Any]
    right: dict[str, Any]
    group: str


def draw_filer(queries: Sequence[Query], count: int, rng: random.Random) -> Iterator[Case]:
    for number, query in enumerate(queries[:count]):
        right = json.loads(file_note(query.text, query.domain))
        filed = {
            name: right[name] if rng.random() < FIELD_RIGHT else rng.choice([one for one in of if one != right[name]])
            for name, of in FIELDS.items()
        }
        yield Case({"item": {"id": f"item-{number}", "title": query.text}}, filed, right, query.intent)


def draw_prioritizer(queries: Sequence[Query], count: int, rng: random.Random) -> Iterator[Case]:
    for number in range(count):
        shown = rng.sample(queries, LIST)
        items = [{"id": f"item-{number}-{place}", "title": query.text} for place, query in enumerate(shown)]
        first = min(range(LIST), key=lambda place: DOMAINS.index(shown[place].domain))
        done = first if rng.random() < CHOICE_RIGHT else rng.randrange(LIST)
        named = [{"recommended_item_id": items[place]["id"]} for place in (done, first)]
        yield Case({"todoItems": items}, named[0], named[1], str(number))


DRAW = {"FILER": draw_filer, "PRIORITIZER": draw_prioritizer}


def run(command: str, *arguments: object) -> dict[str, Any]:
    """What the command says as JSON. Raises Refused with its reasons."""
    from django.core.management import call_command

    out, errors = io.StringIO(), io.StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out, stderr=errors)
    except SystemExit as ended:
        raise Refused(errors.getvalue().strip().rpartition("\n")[2]) from ended
    return json.loads(out.getvalue()) if "--json" in arguments else {}


class Refused(Exception):
    """A command ended without what it was to do."""


class World:
    """One kind and seed: the exports of the first part and of the rest, and the held-out rows."""

    def __init__(self, kind: str, seed: int, queries: Sequence[Query], sizes: Sizes, folder: Path) -> None:
        from decisions.models import Agent

        self.kind, self.seed, self.folder = kind, seed, folder
        self.agent = Agent.objects.get(kind=kind)
        rng = random.Random(f"{kind}/{seed}")
        taken = rng.sample(list(queries), len(queries))
        self.files = {}
        for name, count in (("first", sizes.first), ("rest", sizes.rest)):
            mine, taken = taken[:count], taken[count:]
            self.files[name] = self._record(name, DRAW[kind](mine, count, rng), rng, count)
        self.held_out = self._ask(list(DRAW[kind](taken, sizes.held_out, rng)))

    def _record(self, name: str, cases: Iterator[Case], rng: random.Random, count: int) -> Path:
        """The newest decisions, which are those of the cases, as `export_training_data` writes them."""
        from decisions.labelling.labels import record_verdict
        from tools.factories import DecisionFactory
        from workspaces.access.actors import system

        by = system(self.agent.workspace)
        judged = 0
        for case in cases:
            decision = DecisionFactory(agent=self.agent, state=case.state, options=None, action=case.action,
                                       propensity=None)  # fmt: skip
            if name == "rest" and rng.random() < SILENT:
                continue
            errs = name == "rest" and rng.random() < WRONG
            judged += 1
            if (case.action == case.right) != errs:
                record_verdict(by=by, decision=decision, verdict="confirmed")
            elif errs:
                record_verdict(by=by, decision=decision, verdict="corrected", correction="no")
            else:
                record_verdict(by=by, decision=decision, verdict="corrected", correction=case.right)
        run("calculate_rewards", "--agent-type", self.kind)
        file = self.folder / f"{self.kind.lower()}-{name}.jsonl"
        run("export_training_data", "--agent-type", self.kind, "--output", file, "--limit", judged)
        return file

    def _ask(self, cases: Sequence[Case]) -> Rows:
        from decisions.agents.choices import choices_of
        from decisions.agents.current import find_current_version
        from decisions.agents.prompts import make_prompt

        version = find_current_version(self.agent)
        assert version is not None
        return [
            {
                "id": str(number),
                "prompt": make_prompt(version, case.state).text,
                "options": list(choices_of(version, case.state).options or ()),
                "answer": canonical(case.right),
                "group": case.group,
            }
            for number, case in enumerate(cases)
        ]

    def train(self, name: str, file: Path, model: object, options: Mapping[str, Any]) -> dict[str, Any]:
        told = [word for option, value in options.items() for word in (f"--{option}", value)]
        changes = json.dumps({"lora": None, "seed": self.seed, "samples": 0, "threads": 1})
        output = self.folder / f"{self.kind.lower()}-{name}"
        return run("train", "--data", file, "--output", output, "--model", model, "--set", changes, *told, "--json")

    def is_right(self, runs: Runs, model: str) -> list[bool]:
        number = len(list(runs.folder.iterdir()))
        recipe = {"base": {"path": model}, "evaluate": {"free_rows": 0}, "max_prompt_tokens": 512}
        done = runs.run(f"held-out-{number}", "evaluate", recipe, heldout=self.held_out)
        return [line["correct"] for line in done.predictions("base")]


def measure(kind: str, queries: Sequence[Query], sizes: Sizes, report: Report) -> None:
    figures: dict[str, list[str]] = {name: [] for name in (*RECIPES, "reward model of ppo")}
    better: list[bool] = []
    told_why: list[str] = []
    for seed in range(sizes.seeds):
        with tempfile.TemporaryDirectory(prefix="reckoner-bench-") as place:
            folder = Path(place)
            world = World(kind, seed, queries, sizes, folder)
            (folder / "runs").mkdir()
            runs = Runs(folder / "runs", seed)
            base = world.train("base", world.files["first"], "tiny", BASE)["output"]
            before = world.is_right(runs, base)
            share = sum(before) / len(before)
            for name, options in RECIPES.items():
                method = {} if name == "ppo" else {"method": name}  # which is the default
                try:
                    told = world.train(name, world.files["rest"], base, {**options, **method})
                except Refused as why:
                    figures[name].append(f"{share:.3f}, refused")
                    log(f"{kind}, seed {seed}: {name} refused: {why}")
                    told_why.append(f"seed {seed}: {why}")
                    continue
                assert told["method"] == name, told["chosen"]
                after = world.is_right(runs, told["output"])
                gain = paired_difference(after, before, [row["group"] for row in world.held_out])
                figure = f"{share:.3f} → {sum(after) / len(after):.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
                figures[name].append(figure)
                log(f"{kind}, seed {seed}: {name} {figure}, {told['rows']} rows, {told['seconds']:.0f} s")
                if name == "ppo":
                    better.append(gain.low > 0)
                    auc = [told["metrics"][f"reward_model_auc{end}"] for end in ("", "_low", "_high")]
                    figures["reward model of ppo"].append(
                        f"AUC {auc[0]:.3f} [{auc[1]:.3f}, {auc[2]:.3f}], of the model before training "
                        f"{told['metrics']['starting_model_auc']:.3f}"
                    )
                    log("; ".join(line for line in told["warnings"] if "propensity" in line))
    for name, of in figures.items():
        if of:
            report.add(f"{kind}, {name}", bound="as measured", figure="; ".join(of), passed=True)
    report.add(
        f"{kind}: ppo is better in each seed, or says why not",
        bound="> 0, or refused",
        figure=f"{sum(better)} of {sizes.seeds} better" + "".join(f"; {why}" for why in told_why),
        passed=all(better) and len(better) + len(told_why) >= sizes.seeds,
    )


def main() -> int:
    parser = make_parser(__doc__, quick="one seed, fewer decisions")
    parser.add_argument("--agents", default=",".join(DRAW), help="which kinds, with commas")
    options = parse(parser, "clinc150")
    queries, sizes = read_queries(options.data), QUICK if options.quick else WHOLE
    report = Report("ppo_on_exports")
    with own_database():
        from decisions.agents.services import create_notes_agents
        from tools.factories import WorkspaceFactory
        from workspaces.access.actors import system

        create_notes_agents(by=system(WorkspaceFactory()))
        for kind in options.agents.split(","):
            measure(kind, queries, sizes, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
