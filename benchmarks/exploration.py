"""What exploration costs and brings: regret over 10,000 decisions of a classifier of words that learns as it decides.

    python -m benchmarks.exploration [--worlds domains few intents] [--seeds N …] [--ways NAME …] [--quick]

CLINC150's 10 domains after 200 labels, its 150 intents after 500, and `few`: 77 of the intents after 100 labels, so
that some options were never seen. 5 % of the feedback is wrong, 15 % is missing; after every 1,000 decisions the
classifier learns from all feedback so far, from where it stood, by the loss and penalty of the engine's method
`classifier`. Each way to explore meets the same texts, the same wrong and missing feedback and the same random numbers:

    greedy           the likeliest option
    epsilon-T        the likeliest option, and with probability T any
    sampling         an option by its probability: temperature 1, ε 0
    usual            the same with ε 0.05, which agents begin with
    sharp            temperature 0.25 with ε 0.05, as rehearsals act
    budget           usual, with an exploration budget of 20 in 1,000 decisions
    gap              inverse gap weighting: 1 / (K + 50 K (max p − p)), the rest for the likeliest option
    thompson         the best option of weights drawn from their posterior, Laplace's diagonal one
    thompson-0.05    the same with ε 0.05
    wide-thompson    a prior of unit variance instead of 1/16

Temperatures apply to probabilities that are calibrated on the newest feedback before it is learnt from. Regret is the
sum over decisions of 1 − P(right option) under the acting policy. Intervals are Student's of differences paired by
seed. Prints one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine_runs import parse, read_queries
from tools.report import Report, log

ROOT = Path(__file__).resolve().parents[1]
LABELS = {"domains": 200, "few": 100, "intents": 500}
DECISIONS, EVERY, LAST = 10_000, 1_000, 3
NOISE, MISSING = 0.05, 0.15
FEATURES, STEPS, BATCH, RATE, PENALTY = 3_000, 80, 256, 0.3, 3e-5
TEMPERATURES = np.logspace(-1.3, 0.7, 41)
POINTS, REACH, LEAST_DEVIATION = 129, 5.0, 1e-3
"""Of the integral over what the largest logit is: its points, and how many standard deviations it covers."""
BASE = "epsilon-0.05"


@dataclass(frozen=True, slots=True)
class Way:
    """(1 − ε) · policy + ε / K. `prior`: precision of the weights before any row, of Thompson sampling; None samples
    by temperature, and temperature 0 takes the likeliest. `budget`: of exploration, per 1,000 decisions. `gap`: the
    weight of gaps, of inverse gap weighting."""

    temperature: float = 0.0
    epsilon: float = 0.0
    prior: float | None = None
    budget: float | None = None
    gap: float | None = None


WAYS = {
    "greedy": Way(),
    "epsilon-0.05": Way(epsilon=0.05),
    "epsilon-0.1": Way(epsilon=0.1),
    "sampling": Way(temperature=1.0),
    "usual": Way(temperature=1.0, epsilon=0.05),
    "sharp": Way(temperature=0.25, epsilon=0.05),
    "budget": Way(temperature=1.0, epsilon=0.05, budget=20.0),
    "gap": Way(gap=50.0),
    "thompson": Way(prior=16.0),
    "thompson-0.05": Way(prior=16.0, epsilon=0.05),
    "wide-thompson": Way(prior=1.0),
}


@dataclass(frozen=True, slots=True)
class World:
    """(n, f) sparse `features` of its texts, labels first; the places of the `right` options, of `count`."""

    name: str
    features: Any
    right: NDArray[np.int64]
    count: int


def read_world(name: str, data: Path, seed: int) -> World:
    from training.engine.classifiers import words

    pairs = list(
        {query.text: query.domain if name == "domains" else query.intent for query in read_queries(data)}.items()
    )
    labels = sorted({label for _, label in pairs})
    if name == "few":
        labels = sorted(random.Random("few").sample(labels, 77))
        pairs = [pair for pair in pairs if pair[1] in set(labels)]
    drawn = random.Random(seed).sample(pairs, LABELS[name] + DECISIONS)
    place_of = {label: place for place, label in enumerate(labels)}
    _, features = words.learn_words([text for text, _ in drawn])
    common = np.argsort(-np.bincount(features.indices, minlength=features.shape[1]), kind="stable")[:FEATURES]
    right = np.array([place_of[label] for _, label in drawn])
    return World(name, features[:, np.sort(common)].tocsr(), right, len(labels))


class Learner:
    """Linear weights and biases that go on from where they stood; the engine's loss, with its noise of feedback."""

    def __init__(self, size: int, count: int) -> None:
        import torch

        self.weights = torch.zeros(size, count, requires_grad=True)
        self.bias = torch.zeros(count, requires_grad=True)

    def logits(self, features: Any) -> Any:
        import torch

        bag = torch.nn.functional.embedding_bag(
            torch.from_numpy(features.indices.astype(np.int64)),
            self.weights,
            torch.from_numpy(features.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(features.data),
        )
        return bag + self.bias

    def learn(self, features: Any, target: NDArray[np.int64], reward: NDArray[np.float32], seed: int) -> None:
        import torch

        optimiser = torch.optim.Adam([{"params": [self.weights], "lr": RATE}, {"params": [self.bias], "lr": RATE / 10}])
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [RATE, RATE / 10], total_steps=STEPS + 1)
        rng = np.random.default_rng(seed)
        for _ in range(STEPS):
            rows = np.sort(rng.choice(len(target), min(BATCH, len(target)), replace=False))
            log_p = self.logits(features[rows]).log_softmax(1)
            of_action = log_p[torch.arange(len(rows)), torch.from_numpy(target[rows])]
            r = torch.from_numpy(reward[rows])
            p = of_action.exp()
            rho = ((1 - NOISE) * p + NOISE * (1 - p)).clamp(1e-6, 1 - 1e-6)
            judged = torch.nan_to_num(r)
            losses = torch.where(r.isnan(), -of_action, -judged * rho.log() - (1 - judged) * (1 - rho).log())
            loss = losses.mean() + PENALTY * self.weights.square().sum()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()

    def score(self, features: Any) -> NDArray[np.float64]:
        import torch

        with torch.no_grad():
            scored: NDArray[np.float64] = self.logits(features).double().numpy()
        return scored


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def calibrate(logits: NDArray[np.float64], target: NDArray[np.int64], reward: NDArray[np.float32]) -> float:
    """The temperature under which this feedback, which the classifier had not seen, is likeliest."""
    losses = []
    for temperature in TEMPERATURES:
        p = softmax(logits / temperature)[np.arange(len(target)), target]
        rho = (1 - NOISE) * p + NOISE * (1 - p)
        losses.append(-float((reward * np.log(rho) + (1 - reward) * np.log(1 - rho)).mean()))
    return float(TEMPERATURES[int(np.argmin(losses))])


def act(way: Way, logits: NDArray[np.float64], deviations: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """(n, K) calibrated logits, and standard deviations of those as they were learnt → the acting policy."""
    from decisions.gateway.exploration import acting_policy

    p, count = softmax(logits), logits.shape[1]
    greedy = np.eye(count)[logits.argmax(1)]
    if deviations is not None:
        policy = np.stack([best_shares(*row) for row in zip(logits, deviations, strict=True)])
    elif way.gap is not None:
        policy = 1 / (count + way.gap * count * (p.max(1, keepdims=True) - p))
        policy = policy * (1 - greedy) + greedy * (1 - (policy * (1 - greedy)).sum(1, keepdims=True))
    else:
        policy = softmax(logits / way.temperature) if way.temperature else greedy
    policy = (1 - way.epsilon) * policy + way.epsilon / count
    if way.budget is not None:
        told = {"temperature": way.temperature, "epsilon": way.epsilon, "budget": way.budget}
        policy = np.array([acting_policy(row, **told) for row in p.tolist()])
    return np.asarray(policy)


def best_shares(means: NDArray[np.floating], deviations: NDArray[np.floating]) -> NDArray[np.float64]:
    """P(option k is the largest) of K independent normals: (K,) twice → (K,), sums to 1.

    P(k) = ∫ f_k(t) Π_{j≠k} F_j(t) dt, by the middle of each step: F_k(t') − F_k(t) times the others' product. Options
    that stay below what the best surely reaches get 0.
    """
    from scipy.special import log_ndtr, ndtr

    deviations = np.maximum(np.asarray(deviations, np.float64), LEAST_DEVIATION)
    lowest = (means - REACH * deviations).max()
    reaching = np.flatnonzero(means + REACH * deviations >= lowest)
    shares = np.zeros(len(means))
    mean, deviation = np.asarray(means, np.float64)[reaching, None], deviations[reaching, None]
    grid = np.linspace(lowest, float((mean + REACH * deviation).max()), POINTS)
    standard = (grid - mean) / deviation
    below = log_ndtr((standard[:, 1:] + standard[:, :-1]) / 2)
    shares[reaching] = (np.diff(ndtr(standard), axis=1) * np.exp(below.sum(0) - below)).sum(1)
    return np.asarray(shares / shares.sum())


def information(
    p: NDArray[np.float64], target: NDArray[np.int64], reward: NDArray[np.float32], noise: float
) -> NDArray[np.float64]:
    """(n, K) Fisher information about each logit: of a labelled row (reward NaN) p_c (1 − p_c).

    Feedback on action a is right with ρ = (1 − η) p_a + η (1 − p_a): (1 − 2η)² p_a² (δ_ac − p_c)² / (ρ (1 − ρ)).
    """
    of_action = np.take_along_axis(p, target[:, None], 1)
    rho = (1 - noise) * of_action + noise * (1 - of_action)
    delta = np.zeros_like(p)
    np.put_along_axis(delta, target[:, None], 1.0, 1)
    logged = (1 - 2 * noise) ** 2 * of_action**2 * (delta - p) ** 2 / np.maximum(rho * (1 - rho), 1e-9)
    return np.where(np.isnan(reward)[:, None], p * (1 - p), logged)


def find_deviations(
    learner: Learner, seen: Any, target: NDArray[np.int64], reward: NDArray[np.float32], features: Any, prior: float
) -> NDArray[np.float64]:
    """(n, K) standard deviations of the logits of `features`, after the rows in `seen`."""
    told = information(softmax(learner.score(seen)), target, reward, NOISE)
    precision = max(prior, 2 * PENALTY * len(target)) + seen.multiply(seen).tocsr().T @ told
    variances = features.multiply(features).tocsr() @ (1 / precision) + 1 / (prior + told.sum(0))
    return np.asarray(np.sqrt(variances))


def live(world: World, way: Way, seed: int) -> dict[str, Any]:
    """Decides and learns to the end: `regret`, that of the last 3,000 decisions as `late`, the classifier's accuracy
    before each round."""
    labels, total, rng = LABELS[world.name], len(world.right), np.random.default_rng(seed)
    wrong, silent, draws = (rng.random(total) for _ in range(3))
    target, reward, known = world.right.copy(), np.full(total, np.nan, np.float32), np.zeros(total, bool)
    known[:labels] = True
    learner, regrets, accuracies = Learner(world.features.shape[1], world.count), list[float](), list[float]()
    began, sharpness = time.monotonic(), 1.0
    for begin in range(labels, total, EVERY):
        rows, ids = np.arange(begin, min(begin + EVERY, total)), np.flatnonzero(known)
        learner.learn(world.features[ids], target[ids], reward[ids], seed)
        features, right = world.features[rows], world.right[rows]
        logits, deviations = learner.score(features), None
        if way.prior is not None:
            deviations = find_deviations(learner, world.features[ids], target[ids], reward[ids], features, way.prior)
            deviations = deviations / sharpness
        policy = act(way, logits / sharpness, deviations)
        regrets.append(float((1 - policy[np.arange(len(rows)), right]).sum()))
        accuracies.append(float((logits.argmax(1) == right).mean()))
        cumulated = policy.cumsum(1)
        chosen = (cumulated < draws[rows, None] * cumulated[:, -1:]).sum(1).clip(max=world.count - 1)
        target[rows], known[rows] = chosen, silent[rows] >= MISSING
        reward[rows] = (chosen == right) != (wrong[rows] < NOISE)
        heard = known[rows]
        sharpness = calibrate(logits[heard], chosen[heard], reward[rows][heard])
    return {
        "regret": sum(regrets),
        "late": sum(regrets[-LAST:]),
        "accuracy": accuracies,
        "seconds": time.monotonic() - began,
    }


def paired(differences: Sequence[float]) -> tuple[float, float, float]:
    """Mean and Student's 95 % interval."""
    from scipy.stats import t

    mean = statistics.fmean(differences)
    if len(differences) < 2:
        return mean, float("-inf"), float("inf")
    half = float(t.ppf(0.975, len(differences) - 1)) * statistics.stdev(differences) / len(differences) ** 0.5
    return mean, mean - half, mean + half


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with clinc150/")
    parser.add_argument("--worlds", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--quick", action="store_true", help="the domains, one seed, four ways")
    options = parse(parser, "clinc150")
    if options.quick:
        options.worlds, options.seeds, options.ways = ["domains"], [0], ["usual", "budget", BASE, "thompson-0.05"]
    import torch

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    torch.set_num_threads(1)
    report, measured = Report("exploration"), list[dict[str, Any]]()
    for seed in options.seeds:
        for name in options.worlds:
            world = read_world(name, options.data, seed)
            for way in options.ways:
                row = live(world, WAYS[way], seed)
                measured.append({"world": name, "way": way, "seed": seed, **row})
                log(f"{name}, seed {seed}, {way}: regret {row['regret']:.0f}, late {row['late']:.0f}, "
                    f"accuracy {row['accuracy'][-1]:.3f}, {row['seconds']:.0f} s")  # fmt: skip
    for name in options.worlds:
        regrets = {way: [row["regret"] for row in measured if (row["world"], row["way"]) == (name, way)]
                   for way in options.ways}  # fmt: skip
        for way in options.ways:
            if way == BASE or BASE not in regrets:
                continue
            mean, low, high = paired([a - b for a, b in zip(regrets[way], regrets[BASE], strict=True)])
            figure = f"{mean:+.0f} ({low:+.0f} to {high:+.0f}) of {statistics.fmean(regrets[BASE]):.0f}"
            report.add(f"{name}: regret of {way} less {BASE}", bound="measured", figure=figure, passed=True)
        if {"usual", "budget"} <= regrets.keys():
            mean = statistics.fmean(a - b for a, b in zip(regrets["budget"], regrets["usual"], strict=True))
            report.bound(f"{name}: regret of budget less usual", mean, "<=", 0.0)
    return report.finish(measured=measured)


if __name__ == "__main__":
    sys.exit(main())
