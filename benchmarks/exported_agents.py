"""PRIORITIZER and RETRIEVER learn from their own export, beside the baselines that the product has: better, or not.

    python -m benchmarks.exported_agents [--quick]

The worlds are those of tools/notes_worlds.py: an outside policy decides, rightly in somewhat more than half of the
cases; people confirm what is right and correct what is wrong, say nothing in 15 %, and err in 5 %. The decisions go
through the export's lines and its reader, as `manage.py train` has them. A new tiny model learns from the right answers
of the first 40 %, and from the rest by `posterior` (PRIORITIZER chooses) or `reward_weighted` (RETRIEVER writes). On
held-out decisions its value, by the agent's default reward spec, stands beside those of the option that is most often
right among those on offer, of the outside policy, and of the plain classifier of words that evaluations print, taught
by all the same verdicts. Three seeds (one smaller with --quick). Says of each baseline whether the model is better in
every seed, with its whole 95 % interval; one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import django
import msgspec

from benchmarks.engine_runs import Done, Rows, Runs, each_seed
from models_registry.statistics.intervals import clustered_mean, paired_difference
from tools.notes_worlds import Case, draw_cases
from tools.report import Report

MEASURED = ("PRIORITIZER", "PRIORITIZER by place", "RETRIEVER")
SILENT, WRONG, FIRST = 0.15, 0.05, 0.4
RAW = {"PRIORITIZER": {"confirmed": 1.0, "corrected": -0.5}, "RETRIEVER": {"confirmed": 1.0, "corrected": -1.0}}
"""What the default spec makes of a verdict alone."""
TOKENS = {"PRIORITIZER": (160, 24), "RETRIEVER": (200, 48)}
AT = datetime(2026, 11, 2, tzinfo=UTC)


class Setup(NamedTuple):
    """The agent as the app has it, without a database."""

    agent: Any
    version: Any
    spec: Any


class Lessons(NamedTuple):
    """What the file holds: `first`, right answers that make the first model; `rest`; and every right answer."""

    first: Rows
    rest: Rows
    answers: Rows


def make_setup(kind: str) -> Setup:
    from decisions.agents.kinds import KINDS, action_schema
    from decisions.models import Agent, AgentVersion, RewardSpec
    from decisions.rewards.components.defaults import PRESETS
    from decisions.rewards.spec_content import preset_content

    setup, content = KINDS[kind], preset_content(PRESETS[kind])
    agent = Agent(kind=kind, slug=kind.lower(), name=kind)
    version = AgentVersion(
        action_space="structured", action_schema=action_schema(setup), prompt_template=setup.prompt_template
    )
    components = [{"name": one.name, "weight": one.weight, "parameters": {}} for one in content.components]
    return Setup(agent, version, RewardSpec(components=components))


def export(setup: Setup, cases: Sequence[Case], path: Path, rng: random.Random) -> None:
    """The file, in the format `completion`, of decisions that people judged as they do."""
    from decisions.queries.export import as_completion
    from decisions.queries.exported import Exported

    encode = msgspec.json.encode
    lines = []
    for number, case in enumerate(cases):
        decided = {name: value for name, value in case.action.items() if name != "confidence"}
        verdict: str | None = "confirmed" if (decided == case.right) != (rng.random() < WRONG) else "corrected"
        if rng.random() < SILENT:
            verdict = None
        known = verdict == "corrected" and decided != case.right
        row = Exported(
            id=uuid.UUID(int=number + 1), agent=setup.agent, version=setup.version, item_ref=None, project_ref=None,
            state=json.dumps(case.state), options=None, action=json.dumps(case.action), reasoning=None, confidence=None,
            observed_at=AT, reward=RAW[setup.agent.kind][verdict] if verdict else None, rewarded_at=AT, verdict=verdict,
            correction=json.dumps(case.right) if known else None, metrics=None, unit=None, propensity=None,
            alternatives=None, temperature=None, epsilon=None, signal=None, spec=setup.spec,
        )  # fmt: skip
        lines.append(encode(as_completion(row)))
    path.write_bytes(b"\n".join(lines))


def read_lessons(path: Path) -> Lessons:
    from training.engine.spec.methods import RowKind
    from training.imports.exported import label_choices, read_export

    found, faults = read_export(path)
    assert not faults, faults[:3]
    cut = round(FIRST * len(found.rows))
    if found.kind is RowKind.LOGGED:
        answers = [msgspec.to_builtins(row) for row in label_choices(found.rows, found.answers)]
        first = {row["id"] for row in found.rows[:cut]}
        return Lessons([row for row in answers if row["id"] in first], found.rows[cut:], answers)
    right = [row for row in found.rows if row.get("right")]
    return Lessons([row for row in found.rows[:cut] if row.get("right")], found.rows, right)


def ask(setup: Setup, cases: Sequence[Case]) -> Rows:
    """The held-out rows, with what is right."""
    from decisions.agents.canonical import canonical
    from decisions.agents.choices import choices_of
    from decisions.agents.prompts import make_prompt

    rows: Rows = []
    for number, case in enumerate(cases):
        row = {"id": f"held-{number}", "prompt": make_prompt(setup.version, case.state).text}
        options = choices_of(setup.version, case.state).options
        told = {"options": list(options), "answer": canonical(case.right)} if options is not None else {}
        rows.append(row | (told or {"completion": canonical(case.right), "source": "human"}))
    return rows


def learn(setup: Setup, runs: Runs, lessons: Lessons, held_out: Rows, epochs: int) -> Done:
    from training.rows.decision_fields import compared_of

    kind = setup.agent.kind
    prompt, completion = TOKENS[kind]
    tokens = {"max_prompt_tokens": prompt, "max_completion_tokens": completion}
    recipe: dict[str, Any] = {"optimiser": {"learning_rate": 3e-3, "epochs": epochs, "batch_size": 32}} | tokens
    tiny = {"base": {"tiny": {"hidden": 128, "vocabulary": 700}}}
    writes = kind == "RETRIEVER"
    rows = {"data": {"rows": "text"}} if writes else {}
    first = runs.run("first", "pretrain", recipe | tiny | rows, train=lessons.first)
    spec = {
        "base": {"path": str(first.output)},
        "optimiser": {"learning_rate": 2e-3, "epochs": epochs, "batch_size": 32},
        "evaluate": {"free_rows": 0},
        **tokens,
    }
    compared = {"compared": compared_of(kind, setup.version).model_dump(mode="json")}
    if writes:
        data = {"rows": "text", "heldout_rows": "text", **compared}
        return runs.run("trained", "reward_weighted", spec | {"data": data}, train=lessons.rest, heldout=held_out)
    return runs.run("trained", "posterior", spec, train=lessons.rest, replay=lessons.first, heldout=held_out)


def measure_baselines(setup: Setup, lessons: Lessons, held_out: Rows, cases: Sequence[Case]) -> dict[str, list[bool]]:
    """Of each held-out decision whether the baseline is right: about what is chosen, an item or a document."""
    from training.engine.rows.types import Labelled
    from training.evaluation.plain_baseline import teach_words

    def chosen(action: dict[str, Any]) -> str:
        return str(action.get("recommended_item_id") or action["sourceCitations"][0])

    def answered(row: dict[str, Any]) -> str:
        return chosen(json.loads(row.get("answer") or row["completion"]))

    offered = [[one["id"] for one in case.state.get("todoItems") or case.state["relevantOpuses"]] for case in cases]
    right = [chosen(case.right) for case in cases]
    counts = Counter(map(answered, lessons.answers))
    words = teach_words([(row["prompt"], answered(row)) for row in lessons.answers])
    assert words is not None
    asked = [
        Labelled(row["id"], row["prompt"], tuple(options), answer)
        for row, options, answer in zip(held_out, offered, right, strict=True)
    ]
    return {
        "most often right of those on offer": [
            max(options, key=counts.__getitem__) == answer for options, answer in zip(offered, right, strict=True)
        ],
        "outside policy": [chosen(case.action) == answer for case, answer in zip(cases, right, strict=True)],
        "classifier of words": [a == b for a, b in zip(words.choose(asked), right, strict=True)],
    }


def measure(world: str, report: Report, *, quick: bool) -> None:
    from training.rows.reward_scale import reward_if

    setup = make_setup(world.split()[0])
    right, wrong = reward_if(setup.spec, "confirmed"), reward_if(setup.spec, "corrected")
    taught, asked, epochs = (300, 150, 6) if quick else (600, 200, 8)
    figures: dict[str, list[str]] = {}
    better: dict[str, list[bool]] = {}
    cpu = 0.0
    for seed, runs in each_seed(1 if quick else 3):
        path = runs.folder / "export.jsonl"
        export(setup, draw_cases(world, taught, f"taught/{seed}"), path, random.Random(f"people/{seed}"))
        lessons, cases = read_lessons(path), draw_cases(world, asked, f"asked/{seed}")
        held_out = ask(setup, cases)
        done = learn(setup, runs, lessons, held_out, epochs)
        cpu += done.cpu
        hits = {"trained": [bool(line["correct"]) for line in done.predictions()]}
        hits |= {"first model": [bool(line["correct"]) for line in done.predictions("base")]}
        hits |= measure_baselines(setup, lessons, held_out, cases)
        ids = [row["id"] for row in held_out]
        worth = {name: [wrong + (right - wrong) * one for one in of] for name, of in hits.items()}
        for name, of in worth.items():
            found = clustered_mean(of, ids)
            share = sum(hits[name]) / len(ids)
            figures.setdefault(name, []).append(f"{found.mean:.3f} (right {share:.3f})")
            if name not in ("trained", "first model"):
                gain = paired_difference(worth["trained"], of, ids)
                figures.setdefault(f"trained less {name}", []).append(
                    f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
                )
                better.setdefault(name, []).append(gain.low > 0)
    for name, told in figures.items():
        report.add(f"{world}, {name}: value", bound="as measured", figure="; ".join(told), passed=True)
    for name, seeds in better.items():
        says = "better" if all(seeds) else "not shown to be better"
        figure = f"{says} ({sum(seeds)} of {len(seeds)} seeds)"
        report.add(f"{world}, trained than {name}", bound="as measured", figure=figure, passed=True)
    report.add(f"{world}, runs", bound="as measured", figure=f"{cpu:.0f} CPU s", passed=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, fewer decisions")
    parser.add_argument("--worlds", default=",".join(MEASURED), help="which worlds, with commas")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings_test")
    django.setup()  # the product writes and reads the lines
    report = Report("exported_agents")
    for world in options.worlds.split(","):
        measure(world, report, quick=options.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
