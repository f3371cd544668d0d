"""RETRIEVER chooses documents for a banking task (tau2-bench): five folds by task, recall@10 beside tf-idf.

An app's search (tf-idf) offers its best 50 of 698 documents; a model is asked of each whether the task needs it, and
sees what the app has: its place in the search, its title, and words that it shares with the task. The outside policy
takes the ten that stand first and five of the others by chance. People say of each that it took whether it was needed,
and of one in four that it left; wrongly in 5 %.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.agents.asking import learn_to_answer, positions, show
from benchmarks.engine_runs import Rows, each_seed
from models_registry.statistics.intervals import clustered_mean, paired_difference
from tools.report import Report

OFFERED, TAKEN, BY_CHANCE, LOOKED = 50, 10, 5, 0.25
WRONG = 0.05
FOLDS = 5
SHARED = 6
OPTIONS = ["yes", "no"]


class Offer(NamedTuple):
    """A document that the search offers to a task. `place` from 0."""

    task: int
    place: int
    text: str
    needed: bool


def read_offers(data: Path) -> tuple[list[list[Offer]], list[int]]:
    """Of each task, in the order of the search; and how many documents each task needs."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    home = data / "tau2_banking_knowledge"
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((home / "documents").iterdir())]
    tasks = json.loads((home / "tasks.json").read_text(encoding="utf-8"))
    requests = [json.dumps(task["user_scenario"]["instructions"]) for task in tasks]
    needed = [set(task["required_documents"] or ()) for task in tasks]
    features = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    held = features.fit_transform([f"{one['title']} {one['content']}" for one in documents]).toarray()
    asked = features.transform(requests).toarray()
    names = features.get_feature_names_out()
    offers = []
    for number, request in enumerate(asked):
        order = (-(held @ request)).argsort(kind="stable")[:OFFERED]
        rows = []
        for place, at in enumerate(order):
            shared = [
                names[word] for word in (-(held[at] * request)).argsort()[:SHARED] if held[at, word] * request[word]
            ]
            text = f"place {_band(place)}. {documents[at]['title']}. {' '.join(shared)}"
            rows.append(Offer(number, place, text, documents[at]["id"] in needed[number]))
        offers.append(rows)
    return offers, [len(one) for one in needed]


def _band(place: int) -> str:
    """Places as an app would show them, coarser further down: a tiny model cannot count."""
    return next(name for last, name in ((3, "a"), (6, "b"), (10, "c"), (20, "d"), (OFFERED, "e")) if place < last)


def _ask(one: Offer) -> dict[str, Any]:
    return {"id": f"{one.task}/{one.place}", "prompt": one.text, "options": OPTIONS}


def log_of(offers: Sequence[Sequence[Offer]], rng: random.Random) -> Rows:
    rows: Rows = []
    for offered in offers:
        taken = {*range(TAKEN), *rng.sample(range(TAKEN, OFFERED), BY_CHANCE)}
        for one in offered:
            action = OPTIONS[one.place not in taken]
            judged = one.place in taken or rng.random() < LOOKED
            right = (one.needed == (action == "yes")) != (rng.random() < WRONG)
            rows.append(
                {**_ask(one), "action": action, "reward": float(right) if judged else None, "group": str(one.task)}
            )
    rng.shuffle(rows)
    return rows


def measure(data: Path, report: Report, *, quick: bool) -> None:
    offers, needs = read_offers(data)
    asked = [number for number, count in enumerate(needs) if count]
    ceiling = sum(sum(one.needed for one in offers[task]) / needs[task] for task in asked) / len(asked)
    told: dict[str, list[str]] = {}
    cpu = 0.0
    for seed in range(1 if quick else 3):
        order = random.Random(f"tasks/{seed}").sample(asked, len(asked))
        recalled: dict[str, dict[int, float]] = {}
        for fold, runs in each_seed(1 if quick else FOLDS, max_prompt_tokens=48):
            out = order[fold::FOLDS]
            taught = [offers[task] for task in order if task not in set(out)]
            asked_of = [one for task in out for one in offers[task]]
            held_out: Rows = [_ask(one) | {"answer": OPTIONS[not one.needed]} for one in asked_of]
            log = log_of(taught, random.Random(f"log/{seed}/{fold}"))
            found = learn_to_answer(runs, log, held_out, asked="yes", hidden=64, steps=6)
            cpu += found.cpu
            ways = {
                "trained": found.trained,
                "first model": found.first,
                "tf-idf": [-float(one.place) for one in asked_of],
                "logistic regression of the same verdicts": found.words,
            }
            for name, scores in ways.items():
                for number, task in enumerate(out):
                    places = positions(scores[number * OFFERED : (number + 1) * OFFERED])
                    hits = sum(one.needed and places[one.place] < TAKEN for one in offers[task])
                    recalled.setdefault(name, {})[task] = hits / needs[task]
        tasks = sorted(recalled["tf-idf"])
        by_task = {name: [of[task] for task in tasks] for name, of in recalled.items()}
        for name, of in by_task.items():
            told.setdefault(name, []).append(show(clustered_mean(of, tasks)))
        difference = paired_difference(by_task["trained"], by_task["tf-idf"], tasks)
        told.setdefault("trained less tf-idf", []).append(
            f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
        )
    for name, figures in told.items():
        report.add(f"RETRIEVER, {name}: recall@10", bound="as measured", figure="; ".join(figures), passed=True)
    report.add("RETRIEVER, all runs", bound="as measured", figure=f"{cpu:.0f} CPU s; of 50: {ceiling:.3f}", passed=True)
