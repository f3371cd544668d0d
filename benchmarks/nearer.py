"""How near to the full-label ceiling a rehearsal comes, with the engine alone, and what its settings change.

    python -m benchmarks.nearer [--world intents|domains|few] [--seeds 0,1] [--set PATH=VALUE …] [--quick] [--keep DIR]

The worlds are CLINC150's 150 intents and ten domains (10,000 decisions), and `few`: 77 of the intents, 10,000 texts,
300 labels for the base and 7,000 decisions. 5 % of the feedback is wrong, 15 % is missing; the rows are split and the
settings are those of `manage.py rehearse`. The switches change one thing each:

    --sizes FIRST,GROWTH   the first round's share of the decisions, and how much each round is larger than the last
    --temperature, --epsilon   of the acting policy; --epsilon-falls: it is divided by the round's number
    --labels N --price C   so many decisions, the least confident ones, are labelled instead of judged; each label costs
                           as much as C verdicts, which are not given
    --set, --base-set      a field of the spec of every round (and of the ceiling: --ceiling-set), or of the base

Prints a row per seed, with a plain classifier of words on the same feedback, and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
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

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
ROOT = Path(__file__).resolve().parents[1]
NOISE, MISSING = 0.05, 0.15
Rows = list[dict[str, Any]]
BOUND = {"intents": 0.95, "domains": 0.965, "few": 0.93}


def read_world(name: str, data: Path) -> tuple[Any, Any]:
    """The source, and the plan of its rehearsal."""
    from training.loops.labelled import Example
    from training.rehearsal.plan import Plan
    from training.rehearsal.source import Source

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


def round_ends(decisions: int, rounds: int, first: float, growth: float) -> list[int]:
    """Equal parts without `first`; else the first is that share, each further one `growth` times the one before,
    scaled so that they end at all."""
    sizes = [1.0] * rounds if not first else [growth**number for number in range(rounds)]
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


def run_seed(world: str, seed: int, options: argparse.Namespace, place: Path) -> dict[str, Any]:
    from decisions.gateway.exploration import acting_policy, draw_action
    from training.engine.rows import Labelled
    from training.loops import recipes
    from training.loops.person import Person
    from training.plain_baseline import teach_words
    from training.rehearsal.plan import split_rows

    source, plan = read_world(world, options.data)
    if options.quick:
        plan = replace(plan, decisions=1_000)
    split = split_rows(source, plan, seed)
    labels = list(source.labels)
    bench = Bench(place, recipes.prompt_tokens(source.examples), labels, seed)
    person = Person(seed, missing=MISSING, late=0.0, noise=NOISE)
    began = time.process_time()
    heldout, replay = bench.labelled(split.heldout), bench.labelled(split.seed_rows)
    tiny = merge(recipes.base_settings("tiny", len(replay)), options.base_set)
    base = bench.run("base", {"method": "pretrain", "base": {"tiny": {}}, **tiny}, train=replay, heldout=heldout)
    say(f"base {base.accuracy:.3f}")
    found: dict[str, Any] = {"seed": seed, "base": base.accuracy, "rounds": [], "right": []}
    if not options.no_ceiling:
        every = bench.labelled([*split.stream, *split.seed_rows])
        settings = merge(recipes.ceiling_settings("tiny", len(every)), options.ceiling_set)
        spec = {"method": "pretrain", "base": {"path": str(base.folder)}, **settings}
        found["ceiling"] = bench.run("ceiling", spec, train=every, heldout=heldout).accuracy
        say(f"ceiling {found['ceiling']:.3f}")
    ends = [0, *round_ends(len(split.stream), options.rounds, options.sizes[0], options.sizes[1])]
    logged: Rows = []
    newest = base
    share_of_labels = options.labels / len(split.stream)
    unpaid = (share_of_labels * options.price) / (1 - MISSING) if options.labels else 0.0
    for number in range(1, options.rounds + 1):
        part = split.stream[ends[number - 1] : ends[number]]
        spec = {"method": "evaluate", "base": {"path": str(newest.folder)}}
        thoughts = bench.run(f"decide-{number}", spec, heldout=bench.labelled(part)).thoughts
        rng = random.Random(f"{seed}/{number}")
        epsilon = options.epsilon / number if options.epsilon_falls else options.epsilon
        asked = sorted(part, key=lambda one: margin(thoughts[one.id]))[: round(share_of_labels * len(part))]
        chosen = {one.id for one in asked}
        replay = [*replay, *bench.labelled(asked)]
        right = 0
        for one in part:
            p = thoughts[one.id]
            draw = draw_action(acting_policy(p, temperature=options.temperature, epsilon=epsilon), rng)
            action = labels[draw.index]
            right += action == one.label
            reaction = person.react(one.id, right=action == one.label)
            known = reaction.when != "never" and one.id not in chosen and rng.random() >= unpaid
            row = {"id": one.id, "prompt": one.text, "options": labels, "action": action, "probabilities": p}
            if known:
                logged.append({**row, "propensity": draw.propensity, "reward": float(reaction.verdict == "confirmed")})
        settings = merge(recipes.round_settings("tiny", len(logged) + len(replay)), options.set)
        spec = {"method": "posterior", "base": {"path": str(base.folder)}, **settings}
        newest = bench.run(f"round-{number}", spec, train=logged, replay=replay, heldout=heldout)
        found["rounds"].append(newest.accuracy)
        found["right"].append(right / len(part))
        say(f"round {number}: {ends[number]} decisions, {right / len(part):.3f} right, {newest.accuracy:.3f}")
    found["cpu"] = time.process_time() - began
    lessons = [(row["prompt"], row["answer"]) for row in replay]
    lessons += [(row["prompt"], row["action"]) for row in logged if row["reward"] == 1.0]
    words = teach_words(lessons)
    if words is not None:
        told = words.choose([Labelled(row["id"], row["prompt"], tuple(labels), row["answer"]) for row in heldout])
        found["words"] = sum(one == row["answer"] for one, row in zip(told, heldout, strict=True)) / len(heldout)
    found["final"] = newest.accuracy
    found["labels"] = len(replay) - len(split.seed_rows)
    found["verdicts"] = len(logged)
    return found


def margin(p: Sequence[float]) -> float:
    """The likeliest less the second: the smaller, the more it doubts."""
    second, first = sorted(p)[-2:]
    return first - second


def say(message: str) -> None:
    print(f"      {message}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=tuple(BOUND), default="intents")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--seeds", default="0", help="numbers with commas between them")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--sizes", type=lambda given: tuple(map(float, given.split(","))), default=(0.0, 1.0))
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--epsilon-falls", action="store_true")
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
    results = []
    for seed in map(int, options.seeds.split(",")):
        with tempfile.TemporaryDirectory(prefix="nearer-") as place:
            folder = options.keep / f"{options.world}-{seed}" if options.keep else Path(place)
            folder.mkdir(parents=True, exist_ok=True)
            found = run_seed(options.world, seed, options, folder)
        results.append(found)
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
