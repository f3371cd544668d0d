"""Classifiers by few labels and then feedback alone: words, a sentence encoder, both; and what a decision costs.

    python -m benchmarks.classifiers [--encoder FOLDER] [--worlds domains intents] [--seeds N …] [--quick]

CLINC150: 200 labels and 2,000 decisions on its 10 domains, 500 and 7,000 on its 150 intents. In four rounds the newest
classifier decides (ε 0.05; 5 % of the feedback is wrong, 15 % missing) and a new one learns from everything so far, by
the engine's method. `words` is the bound: what an encoder costs has to pay. Beside it stands the plain classifier of
words that versions are compared with, on the same labels and confirmed decisions. `--encoder`: a folder of
sentence-transformers, such as all-MiniLM-L6-v2; without it only words are measured.

Prints a row per world and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_runs import parse, read_queries
from tools.report import Report, log

ROOT = Path(__file__).resolve().parents[1]
WORLDS = {"domains": (200, 2_000), "intents": (500, 7_000)}
EPSILON, NOISE, MISSING, ROUNDS = 0.05, 0.05, 0.15, 4
HELD_OUT, TIMED = 2_000, 300
MOST_MS = {"words": 5.0, "encoder": 25.0}


def attempt_of(kind: str, encoder: Path | None, seed: int) -> Any:
    import torch

    from training.engine.attempt.attempt import Attempt
    from training.engine.attempt.events import Events
    from training.engine.attempt.stop import StopFlag
    from training.engine.spec.run_spec import RunSpec

    base: dict[str, Any] = {"words": True} if kind == "words" else {"path": str(encoder)}
    told = {"run_id": "classifier", "method": "classifier", "seed": seed, "base": base, "data": {"train": "rows"}}
    spec = RunSpec.model_validate(told | {"classifier": {"words_beside": kind == "both"}})
    return Attempt(spec, 1, Path(os.devnull), torch.device("cpu"), Events(Path(os.devnull)), StopFlag())


def learn(kind: str, encoder: Path | None, seed: int, labelled: Sequence[Any], logged: Sequence[Any]) -> Any:
    from training.engine.classifiers.training import train_classifier
    from training.engine.data.reading import RunData

    data = RunData(labelled=list(labelled), logged=list(logged))
    return train_classifier(attempt_of(kind, encoder, seed), data)[0]


def score(classifier: Any, texts: Sequence[str], options: tuple[str, ...]) -> np.ndarray:
    from training.engine.rows.types import Prompt

    return np.exp(np.stack(classifier.log_probabilities([Prompt(text) for text in texts], [options] * len(texts))))


def plain_accuracy(labelled: Sequence[Any], logged: Sequence[Any], test: Sequence[tuple[str, str]]) -> float:
    from training.engine.rows.types import Labelled
    from training.evaluation.plain_baseline import teach_words

    confirmed = [(row.prompt, row.action) for row in logged if row.reward]
    words = teach_words([*((row.prompt, row.answer) for row in labelled), *confirmed])
    assert words is not None
    options = tuple(sorted({label for _, label in test}))
    chosen = words.choose([Labelled(str(place), text, options, label) for place, (text, label) in enumerate(test)])
    return statistics.fmean(action == label for action, (_, label) in zip(chosen, test, strict=True))


def live(kind: str, encoder: Path | None, pairs: Sequence[tuple[str, str]], world: str, seed: int) -> dict[str, float]:
    """One world from its labels to its last round: accuracies on held-out queries, and seconds."""
    from training.engine.rows.types import Labelled, Logged

    labels, decisions = WORLDS[world]
    options = tuple(sorted({label for _, label in pairs}))
    test = random.Random("held out").sample(list(pairs), HELD_OUT)
    rest = [pair for pair in pairs if pair not in set(test)]
    drawn = random.Random(seed).sample(rest, labels + decisions)
    labelled = [Labelled(f"l{place}", text, options, label) for place, (text, label) in enumerate(drawn[:labels])]
    rng, logged, reached, began = np.random.default_rng(seed), list[Any](), list[float](), time.monotonic()
    for number in range(ROUNDS + 1):
        classifier = learn(kind, encoder, seed, labelled, logged)
        right = score(classifier, [text for text, _ in test], options).argmax(1)
        hits = [options[place] == label for place, (_, label) in zip(right, test, strict=True)]
        reached.append(statistics.fmean(hits))
        if number == ROUNDS:
            break
        part = drawn[labels + number * decisions // ROUNDS : labels + (number + 1) * decisions // ROUNDS]
        p = (1 - EPSILON) * score(classifier, [text for text, _ in part], options) + EPSILON / len(options)
        for place, (text, label) in enumerate(part):
            action = int(rng.choice(len(options), p=p[place] / p[place].sum()))
            reward = float((options[action] == label) != (rng.random() < NOISE))
            if rng.random() >= MISSING:
                identity = f"d{number}-{place}"
                logged.append(Logged(identity, text, options, options[action], float(p[place, action]), reward))
    seconds = time.monotonic() - began
    log(f"{world}, {kind}, seed {seed}: {' '.join(f'{value:.3f}' for value in reached)}, {seconds:.0f} s")
    return {
        "labels": reached[0],
        "decisions": reached[-1],
        "plain": plain_accuracy(labelled, logged, test),
        "seconds": seconds,
        "ms": median_ms(classifier, [text for text, _ in test[:TIMED]], options),
    }


def median_ms(classifier: Any, texts: Sequence[str], options: tuple[str, ...]) -> float:
    """Times one decision after the other on one core, without HTTP: the median, in milliseconds."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    taken = []
    for text in texts:
        began = time.perf_counter()
        score(classifier, [text], options)
        taken.append(1000 * (time.perf_counter() - began))
    torch.set_num_threads(before)
    return statistics.median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, help="folder of a sentence encoder")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with clinc150/")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--quick", action="store_true", help="the domains, one seed")
    options = parse(parser, "clinc150")
    if options.quick:
        options.worlds, options.seeds = ["domains"], [0]
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from training.engine.machine.hardware import set_threads

    set_threads(None)
    queries = read_queries(options.data)
    kinds = ["words"] if options.encoder is None else ["words", "encoder", "both"]
    report, measured = Report("classifiers"), list[dict[str, Any]]()
    for world in options.worlds:
        pairs = list({query.text: query.domain if world == "domains" else query.intent for query in queries}.items())
        ends: dict[str, float] = {}
        for kind in kinds:
            rows = [live(kind, options.encoder, pairs, world, seed) for seed in options.seeds]
            measured += [{"world": world, "kind": kind, "seed": seed, **row}
                         for seed, row in zip(options.seeds, rows, strict=True)]  # fmt: skip
            ends[kind] = statistics.fmean(row["decisions"] for row in rows)
            plain = statistics.fmean(row["plain"] for row in rows)
            report.bound(f"{world}, {kind}: after decisions, less plain words on them", ends[kind] - plain, ">=", 0.0)
            ms = statistics.median(row["ms"] for row in rows)
            report.bound(f"{world}, {kind}: ms a decision, one core", ms, "<=", MOST_MS.get(kind, MOST_MS["encoder"]))
        if "encoder" in ends:
            report.bound(f"{world}: the encoder less words", ends["encoder"] - ends["words"], ">=", 0.0)
    return report.finish(measured=measured)


if __name__ == "__main__":
    sys.exit(main())
