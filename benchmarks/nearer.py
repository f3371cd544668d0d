"""How near to the full-label ceiling a rehearsal comes, with the engine alone, and what its settings change.

    python -m benchmarks.nearer [--world intents|domains|few] [--seeds 0,1] [--set PATH=VALUE …] [--quick] [--keep DIR]

The worlds are CLINC150's 150 intents and ten domains (10,000 decisions), and `few`: 77 of the intents, 10,000 texts,
300 labels for the base and 7,000 decisions. 5 % of the feedback is wrong, 15 % is missing; the rows are split and the
settings are those of `manage.py rehearse`. The switches change one thing each:

    --growth G             each round is G times as large as the one before; 1 makes them equal
    --temperature, --epsilon   of the acting policy
    --unsure               ε in proportion to the entropy of what the model thinks of each text, ε on average
    --labels N --price C   so many decisions are labelled: rejected ones first, then those not judged, the least
                           confident first. Each label costs as much as C verdicts, which are not given
    --set, --base-set      a field of the spec of every round (and of the ceiling: --ceiling-set), or of the base

Prints a row per seed, with a plain classifier of words on the same feedback and the gate's effective sample on a log by
the base and by the version before the last, and one JSON object as the last line; exits 1 when a seed misses its bound.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.report import Report, log

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
ROOT = Path(__file__).resolve().parents[1]
NOISE, MISSING = 0.05, 0.15
Rows = list[dict[str, Any]]
BOUND = {"intents": 0.95, "domains": 0.965, "few": 0.93}


def read_world(name: str, data: Path) -> tuple[Any, Any]:
    """The source, and the plan of its rehearsal."""
    from training.loops.rehearsal.plan import Plan
    from training.loops.rehearsal.source import Source
    from training.rows.labelled_texts import Example

    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    pairs = list(dict(text_label for part in ("train", "val", "test") for text_label in found[part]).items())
    plan = Plan(seed_share=0.07, decisions=10_000, noise=NOISE, missing=MISSING)
    if name == "domains":
        pairs = [(text, domain_of[intent]) for text, intent in pairs]
        plan = replace(plan, seed_share=0.0223)
    if name == "few":
        rng = random.Random("few")
        chosen = set(rng.sample(sorted(domain_of), 77))
        pairs = rng.sample([(text, intent) for text, intent in pairs if intent in chosen], 10_000)
        plan = replace(plan, seed_share=0.03, decisions=7_000)
    examples = tuple(Example(f"row-{place}", text, label) for place, (text, label) in enumerate(pairs))
    return Source(name, name, examples, tuple(sorted({label for _, label in pairs})), 0, 0, 0), plan


@dataclass(frozen=True, slots=True)
class Trained:
    folder: Path
    accuracy: float
    thoughts: dict[str, list[float]]


class Bench:
    """Runs the engine in this process, in folders under `place`."""

    def __init__(self, place: Path, prompt_tokens: int, labels: Sequence[str], seed: int) -> None:
        self.place, self.prompt_tokens, self.labels, self.seed = place, prompt_tokens, labels, seed

    def labelled(self, examples: Sequence[Any]) -> Rows:
        return [{"id": one.id, "prompt": one.text, "options": self.labels, "answer": one.label} for one in examples]

    def run(self, name: str, spec: Mapping[str, Any], **data: Rows) -> Trained:
        """Its held-out accuracy, and what it thinks of each held-out row."""
        from training.engine.__main__ import main as engine

        folder = self.place / name
        folder.mkdir(parents=True)
        for part, rows in data.items():
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        told = {
            "run_id": name,
            "seed": self.seed,
            "max_prompt_tokens": self.prompt_tokens,
            "evaluate": {"free_rows": 0},
            "checkpoint_every_seconds": 300,
            "threads": 1,
            "data": {part: f"{part}.jsonl" for part in data},
            **spec,
        }
        (folder / "spec.json").write_text(json.dumps(told))
        code = engine([str(folder)])
        if code:
            raise RuntimeError(f"{name}: the engine ended with {code}")
        attempt = folder / "attempts" / "1"
        result = json.loads((attempt / "result.json").read_text())
        which = "trained" if "trained" in result["scores"] else "base"
        thoughts = {}
        for line in (attempt / "predictions.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["model"] == which:
                thoughts[row["id"]] = row["p"]
        return Trained(attempt / str(result["output"] or ""), result["scores"][which]["accuracy"], thoughts)


def round_ends(decisions: int, rounds: int, growth: float) -> list[int]:
    sizes = [growth**number for number in range(rounds)]
    ends = np.cumsum(sizes) / sum(sizes) * decisions
    return [round(float(end)) for end in ends]


def merge(spec: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """With `optimiser.epochs=4` and the like."""
    made = json.loads(json.dumps(spec))
    for change in changes:
        path, _, value = change.partition("=")
        *names, last = path.split(".")
        inner = made
        for name in names:
            inner = inner.setdefault(name, {})
        inner[last] = json.loads(value)
    return made  # type: ignore[no-any-return]


def entropy(probabilities: Sequence[float]) -> float:
    return -math.fsum(p * math.log(p) for p in probabilities if p > 0)


@dataclass(frozen=True, slots=True)
class Spent:
    """What reviewers do: `labels`, the share of the decisions that they label, and `unpaid`, the share of the verdicts
    that are not given for it."""

    labels: float
    unpaid: float


def decide(
    bench: Bench, part: Sequence[Any], model: Path, person: Any, options: argparse.Namespace, spent: Spent, draws: str
) -> tuple[Rows, Sequence[Any], float]:
    """One round: the judged decisions as rows, the examples that were labelled instead, and the share of right ones."""
    from decisions.gateway.exploration import acting_policy, draw_action
    from training.loops.person import WORTH_A_LABEL

    spec = {"method": "evaluate", "base": {"path": str(model)}}
    thoughts = bench.run(f"decide-{draws.partition('/')[2]}", spec, heldout=bench.labelled(part)).thoughts
    rng = random.Random(draws)
    rows, right = [], 0
    doubts = {one.id: entropy(thoughts[one.id]) if options.unsure else 1.0 for one in part}
    usual = math.fsum(doubts.values()) / len(doubts)
    for one in part:
        epsilon = min(1.0, options.epsilon * doubts[one.id] / usual)
        policy = acting_policy(thoughts[one.id], temperature=options.temperature, epsilon=epsilon)
        draw = draw_action(policy, rng)
        action = bench.labels[draw.index]
        right += action == one.label
        reaction = person.react(one.id, right=action == one.label)
        silent = reaction.when == "never" or rng.random() < spent.unpaid
        reward = None if silent else float(reaction.verdict == "confirmed")
        row = {"id": one.id, "prompt": one.text, "options": bench.labels, "action": action, "reward": reward}
        rows.append({**row, "propensity": draw.propensity, "probabilities": thoughts[one.id]})
    order = sorted(rows, key=lambda row: (WORTH_A_LABEL.index(row["reward"]), margin(row["probabilities"])))
    asked = {row["id"] for row in order[: round(spent.labels * len(part))]}
    labelled = [one for one in part if one.id in asked]
    answer = {one.id: one.label for one in labelled}
    for row in rows:
        if row["id"] in answer:  # a label outranks the feedback on the action, as in the ledger
            row["reward"] = float(row["action"] == answer[row["id"]])
    return rows, labelled, right / len(part)


def run_seed(seed: int, options: argparse.Namespace, place: Path) -> dict[str, Any]:
    from training.loops.person import Person
    from training.loops.rehearsal.plan import split_rows
    from training.runs.defaults import recipes

    source, plan = read_world(options.world, options.data)
    if options.quick:
        plan = replace(plan, decisions=1_000)
    split = split_rows(source, plan, seed)
    bench = Bench(place, recipes.prompt_tokens(source.examples), list(source.labels), seed)
    person = Person(seed, missing=MISSING, late=0.0, noise=NOISE)
    began = time.process_time()
    heldout, replay = bench.labelled(split.heldout), bench.labelled(split.seed_rows)
    settings = merge(recipes.base_settings("tiny", len(replay)), options.base_set)
    base = bench.run("base", {"method": "pretrain", "base": {"tiny": {}}, **settings}, train=replay, heldout=heldout)
    log(f"base {base.accuracy:.3f}")
    found: dict[str, Any] = {"seed": seed, "base": base.accuracy, "rounds": [], "right": [], "ceiling": None}
    if not options.no_ceiling:
        every = bench.labelled([*split.stream, *split.seed_rows])
        settings = merge(recipes.ceiling_settings("tiny", len(every)), options.ceiling_set)
        spec = {"method": "pretrain", "base": {"path": str(base.folder)}, **settings}
        found["ceiling"] = bench.run("ceiling", spec, train=every, heldout=heldout).accuracy
        log(f"ceiling {found['ceiling']:.3f}")
    ends = [0, *round_ends(len(split.stream), options.rounds, options.growth)]
    labels = options.labels / len(split.stream)
    spent = Spent(labels, labels * options.price / (1 - MISSING))
    logged: Rows = []
    newest = before = base
    for number in range(1, options.rounds + 1):
        part = split.stream[ends[number - 1] : ends[number]]
        rows, labelled, right = decide(bench, part, newest.folder, person, options, spent, f"{seed}/{number}")
        logged, replay = [*logged, *rows], [*replay, *bench.labelled(labelled)]
        settings = merge(recipes.round_settings("tiny", len(logged) + len(replay)), options.set)
        spec = {"method": "posterior", "base": {"path": str(base.folder)}, **settings}
        before = newest
        newest = bench.run(f"round-{number}", spec, train=logged, replay=replay, heldout=heldout)
        found["rounds"].append(newest.accuracy)
        found["right"].append(right)
        log(f"round {number}: {ends[number]} decisions, {right:.3f} right, {newest.accuracy:.3f}")
    found |= {"final": newest.accuracy, "cpu": round(time.process_time() - began)}
    found |= {
        "labels": len(replay) - len(split.seed_rows),
        "verdicts": sum(row["reward"] is not None for row in logged),
    }
    found["words"] = measure_words(logged, replay, heldout)
    for name, model in (("base", base), ("before", before)):
        found[f"gate_by_{name}"] = judge(bench, name, model.folder, newest.folder, split.gate, person, options)
    return found


def measure_words(logged: Rows, replay: Rows, heldout: Rows) -> float | None:
    """Accuracy of the plain classifier on the same feedback."""
    from training.engine.rows.types import Labelled
    from training.evaluation.plain_baseline import teach_words

    lessons = [(row["prompt"], row["answer"]) for row in replay]
    words = teach_words(lessons + [(row["prompt"], row["action"]) for row in logged if row["reward"] == 1.0])
    if words is None:
        return None
    asked = [Labelled(row["id"], row["prompt"], tuple(row["options"]), row["answer"]) for row in heldout]
    return sum(one == row.answer for one, row in zip(words.choose(asked), asked, strict=True)) / len(asked)


def judge(
    bench: Bench, name: str, logger: Path, final: Path, rows: Sequence[Any], person: Any, options: argparse.Namespace
) -> dict[str, Any]:
    """The gate on a log by one version of the last one, as `manage.py rehearse` asks it."""
    from decisions.gateway.exploration import acting_policy, draw_action
    from training.evaluation.off_policy import Log, check_off_policy_gate
    from training.loops.rehearsal.loop import GATE_EPSILON, GATE_TEMPERATURE

    told = [
        bench.run(
            f"gate-{name}-{which}", {"method": "evaluate", "base": {"path": str(path)}}, heldout=bench.labelled(rows)
        )
        for which, path in (("logger", logger), ("final", final))
    ]
    rng = random.Random(f"{bench.seed}/gate")
    columns: list[tuple[float, ...]] = []
    for one in rows:
        acting, policy = (
            acting_policy(model.thoughts[one.id], temperature=temperature, epsilon=epsilon)
            for model, temperature, epsilon in zip(
                told, (GATE_TEMPERATURE, options.temperature), (GATE_EPSILON, options.epsilon), strict=True
            )
        )
        draw = draw_action(acting, rng)
        reaction = person.react(one.id, right=bench.labels[draw.index] == one.label)
        if reaction.when == "never":
            continue
        guess = [person.expected_feedback(p) for p in policy]
        value = sum(p * q for p, q in zip(policy, guess, strict=True))
        columns.append(
            (float(reaction.verdict == "confirmed"), draw.propensity, policy[draw.index], guess[draw.index], value)
        )
    reward, propensity, target, q_logged, q_target = np.array(columns).T
    found = check_off_policy_gate(Log(reward, propensity, target, q_logged, q_target, epsilon=GATE_EPSILON))
    sample = round(found.estimates.effective_sample_size)
    return {"rows": len(columns), "sample": sample, "passed": found.passed, "refusals": found.refusals}


def margin(p: Sequence[float]) -> float:
    """The likeliest less the second: the smaller, the more it doubts."""
    second, first = sorted(p)[-2:]
    return first - second


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=tuple(BOUND), default="intents")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--seeds", default="0", help="numbers with commas between them")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--growth", type=float, default=2.0)
    parser.add_argument("--temperature", type=float, default=0.25)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--unsure", action="store_true", help="explore where the model is unsure")
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--price", type=float, default=3.0)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--base-set", action="append", default=[])
    parser.add_argument("--ceiling-set", action="append", default=[])
    parser.add_argument("--no-ceiling", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the runs, which are removed without it")
    parser.add_argument("--quick", action="store_true", help="1,000 decisions")
    options = parser.parse_args()

    import django

    django.setup()
    report = Report("nearer")
    for seed in map(int, options.seeds.split(",")):
        with tempfile.TemporaryDirectory(prefix="nearer-") as place:
            folder = options.keep / f"{options.world}-{seed}" if options.keep else Path(place)
            folder.mkdir(parents=True, exist_ok=True)
            found = run_seed(seed, options, folder)
        log(json.dumps(found))
        share = found["final"] / found["ceiling"] if found["ceiling"] else None
        gates = "; ".join(
            f"gate by the {name} {'passes' if gate['passed'] else 'does not pass'} at {gate['sample']}"
            for name, gate in (("base", found["gate_by_base"]), ("version before", found["gate_by_before"]))
        )
        report.add(
            f"{options.world}, seed {seed}: share of the ceiling",
            bound=f">= {BOUND[options.world]}",
            figure=f"{'-' if share is None else format(share, '.3f')} ({found['base']:.3f} -> {found['final']:.3f}, "
            f"ceiling {found['ceiling'] or 0:.3f}, words {found['words'] or 0:.3f}; {gates}; {found['cpu']} CPU s)",
            passed=options.quick or share is None or share >= BOUND[options.world],
        )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
