"""LIBRARIAN finds what belongs together, as scored pairs: queries of CLINC150 of one intent are redundant.

For a new query the app's search (tf-idf) brings the 100 nearest queries of others; a model is asked of pairs of the two
whether the one makes the other redundant, and sees both texts, the words that they share, and how near the search finds
them, in tenths. The outside policy finds redundant what is nearer than 0.45, give or take. People say whether it was
right; wrongly in 5 %. Whole intents are held out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.agents.asking import learn_to_answer, show
from benchmarks.engine_runs import Query, Rows, each_seed, read_queries
from models_registry.statistics.intervals import clustered_mean
from tools.report import Report

NEAR, THRESHOLD, CHANCE, WRONG = 100, 0.45, 0.1, 0.05
A_QUERY = 3
"""Pairs of each new query."""
RESAMPLES = 400
OPTIONS = ["REDUNDANCY", "NONE"]


class Pair(NamedTuple):
    text: str
    near: float
    same: bool
    intent: str


def pairs_of(queries: Sequence[Query], news: int, rng: random.Random) -> list[Pair]:
    """Of so many of the queries with others, as the search finds them."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    held = TfidfVectorizer(sublinear_tf=True).fit_transform([query.text for query in queries])
    pairs = []
    for at in rng.sample(range(len(queries)), news):
        near = (held @ held[at].T).toarray()[:, 0]
        near[at] = -1.0
        for other in rng.sample([int(one) for one in (-near).argsort()[:NEAR]], A_QUERY):
            new, old = queries[at], queries[other]
            shared = sorted(set(new.text.split()) & set(old.text.split()))
            text = f"{new.text} / {old.text} / both: {' '.join(shared)} / near {int(10 * near[other])}"
            pairs.append(Pair(text, float(near[other]), new.intent == old.intent, new.intent))
    return pairs


def measure(data: Path, report: Report, *, quick: bool) -> None:
    queries = read_queries(data)
    told: dict[str, list[str]] = {}
    better: list[bool] = []
    cpu = 0.0
    for seed, runs in each_seed(1 if quick else 3, max_prompt_tokens=72):
        rng = random.Random(f"pairs/{seed}")
        intents = sorted({query.intent for query in queries})
        apart = set(rng.sample(intents, len(intents) // 3))
        taught = pairs_of([query for query in queries if query.intent not in apart], 300 if quick else 1_000, rng)
        asked = pairs_of([query for query in queries if query.intent in apart], 150 if quick else 400, rng)
        log: Rows = []
        for number, pair in enumerate(taught):
            action = OPTIONS[pair.near + rng.gauss(0.0, CHANCE) < THRESHOLD]
            right = (pair.same == (action == OPTIONS[0])) != (rng.random() < WRONG)
            row = {"id": str(number), "prompt": pair.text, "options": OPTIONS, "action": action}
            log.append({**row, "reward": float(right), "group": pair.intent})
        held_out: Rows = [
            {"id": str(n), "prompt": pair.text, "options": OPTIONS, "answer": OPTIONS[not pair.same]}
            for n, pair in enumerate(asked)
        ]
        found = learn_to_answer(runs, log, held_out, asked=OPTIONS[0], hidden=64, steps=5)
        cpu += found.cpu
        scores = {
            "trained": found.trained,
            "first model": found.first,
            "cosine of tf-idf": [pair.near for pair in asked],
            "logistic regression of the same verdicts": found.words,
        }
        same, clusters = [pair.same for pair in asked], [pair.intent for pair in asked]
        areas = resampled_areas(scores, same, clusters, seed)
        for name, of in areas.items():
            told.setdefault(f"{name}: AUC", []).append(_show(of))
        difference = areas["trained"] - areas["cosine of tf-idf"]
        told.setdefault("trained less cosine: AUC", []).append(_show(difference, "+"))
        policy = [pair.near + rng.gauss(0.0, CHANCE) >= THRESHOLD for pair in asked]
        shares = []
        for name, chosen in (("trained", [score > 0 for score in found.trained]), ("outside policy", policy)):
            right_share = clustered_mean([float(a == b) for a, b in zip(chosen, same, strict=True)], clusters)
            told.setdefault(f"{name}: accuracy", []).append(show(right_share))
            shares.append(right_share.mean)
        better.append(shares[0] > shares[1])
    for name, figures in told.items():
        required = name == "trained: accuracy"
        bound = "> the policy's in each" if required else "as measured"
        passed = quick or not required or all(better)
        report.add(f"LIBRARIAN, {name}", bound=bound, figure="; ".join(figures), passed=passed)
    report.add("LIBRARIAN, all runs", bound="as measured", figure=f"{cpu:.0f} CPU s", passed=True)


def resampled_areas(
    scores: dict[str, list[float]], same: Sequence[bool], clusters: Sequence[str], seed: int
) -> dict[str, np.ndarray]:
    """The area under the ROC curve by way of scoring: (1 + resamples,), the first of all pairs, the others of intents
    drawn with replacement, the same for every way."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    names, of = np.unique(clusters, return_inverse=True)
    rows = [np.flatnonzero(of == number) for number in range(len(names))]
    draws = [np.arange(len(same))]
    draws += [np.concatenate([rows[n] for n in rng.integers(0, len(names), len(names))]) for _ in range(RESAMPLES)]
    truth = np.array(same)
    return {
        name: np.array([roc_auc_score(truth[drawn], np.array(values)[drawn]) for drawn in draws])
        for name, values in scores.items()
    }


def _show(areas: np.ndarray, sign: str = "") -> str:
    low, high = np.quantile(areas[1:], [0.025, 0.975])
    return f"{areas[0]:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"
