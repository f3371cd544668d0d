"""The direct method: P(option is right | prompt) learned from logged decisions, without the language model's weights.

A softmax over the row's options with scores

    t · bend(s(a | x)) + u · bend(h(a | x)) + b · log p_base(a | x),        bend(s) = s + 2 · min(s + 0.7, 0)

s is a linear classifier of words: one support vector machine an option on tf-idf of words and pieces of words, taught
from decisions that were right and from replayed labels. h is the same on the starting model's hidden states, where it
is wide enough to have learnt what words mean (WIDE). An option below −0.7 is nothing to the text: it falls three times
as fast, else the many that are nothing would share a fifth of the probability. The classifiers are cross-fitted: each
row is scored by fits that never saw it. t, u and b ≥ 0 are fitted by the likelihood of the feedback, of right and wrong
decisions: the action was right with probability q(a), and feedback says the opposite of the truth with chance η. Called
by the methods posterior and all_action. Measured in docs/results.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decisions.labelling.classifier import learn_machines, make_features, shorten
from training.engine.attempt.events import PREPARING
from training.engine.attempt.stop import StopFlag
from training.engine.methods.offline import Decisions
from training.engine.models.actions import hidden_size
from training.engine.scoring.states import read_states
from training.engine.spec.settings import DirectMethod

MOST_OPTIONS = 512
"""Distinct options that get a machine of their own; rarer ones lean on the base alone."""
UNSEEN = -1.0
"""The score of an option that was never right: what its machine would say of a text that is nothing of its own."""
SEEN_IN = 2
"""Rows in which a feature must occur: one seen once carries nothing from a fit to a row outside of it."""
WIDE = 512
"""Hidden dimensions from which on a model's states are read: narrower ones are tiny models taught on the spot."""
START, BASE_START = 3.0, 0.3
"""Of t (t and u share it) and of b."""
MOST_WEIGHT, MOST_OF_BASE = 8.0, 1.0
KINK, STEEPER = -0.7, 2.0
MOST_CALIBRATED = 5_000
"""The two weights are fitted on so many rows at most."""
LOGGED_FLOOR = 1e-6
"""Least probability that a deciding model is taken to have given to an option."""

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def count_words(texts: Sequence[str]) -> Any:
    """(n, f) tf-idf of words and pieces of words; None where no two texts share one."""
    try:
        return make_features(seen_in=SEEN_IN).fit_transform([shorten(text) for text in texts])
    except ValueError:  # an empty vocabulary
        return None


def score_apart(
    features: Any,
    actions: Sequence[str],
    rewards: Floats,
    options: Sequence[tuple[str, ...]],
    *,
    folds: int,
    seed: int,
    stop: StopFlag,
) -> Floats:
    """features (n, f) → (n, K) scores of each row's options, by fits that left the row's fold out; 0 where there is
    nothing to learn, as without features.

    Rows are learnt whose reward (n,) in [0, 1] is above a half, or above the mean where that is less; it weighs them.
    One that is NaN is unknown, and such a row is only scored.
    """
    scores = np.zeros((len(actions), max(map(len, options))))
    if features is None:
        return scores
    taught = find_lessons(actions, rewards)
    fold = np.random.default_rng(seed).permutation(len(actions)) % folds
    for left_out in range(folds):
        stop.check()
        lessons, mine = np.flatnonzero(taught & (fold != left_out)), np.flatnonzero(fold == left_out)
        scores[mine] = score_by(features, actions, rewards, options, lessons=lessons, mine=mine, seed=seed)
    return scores


def find_lessons(actions: Sequence[str], rewards: Floats) -> NDArray[np.bool_]:
    """(n,) which rows teach a machine what is right: those with a reward above a half, or above the mean where that is
    less, of the actions that were right most often."""
    taught = (rewards > min(0.5, float(np.nanmean(rewards)))) | (rewards == 1.0)
    often = Counter(action for action, right in zip(actions, taught, strict=True) if right).most_common(MOST_OPTIONS)
    kept = {action for action, _ in often}
    return np.asarray(taught & np.array([action in kept for action in actions]))


def score_by(
    features: Any,
    actions: Sequence[str],
    rewards: Floats,
    options: Sequence[tuple[str, ...]],
    *,
    lessons: Places,
    mine: Places,
    seed: int,
) -> Floats:
    """(len(mine), K) scores of the options of the rows at `mine`, by machines that learnt from the rows at `lessons`,
    weighed by their rewards; 0 where these were right in one way only."""
    scores = np.zeros((len(mine), max(map(len, options))))
    right = [actions[int(row)] for row in lessons]
    if len(set(right)) < 2 or not mine.size:
        return scores
    machines = learn_machines(features[lessons], right, weights=rewards[lessons], seed=seed)
    said = np.column_stack([machines.score(features[mine]), np.full(len(mine), UNSEEN)])
    column = {action: place for place, action in enumerate(machines.actions)}
    columns_of: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(mine.tolist()):
        columns = columns_of.get(options[row])
        if columns is None:
            columns = columns_of[options[row]] = [column.get(option, said.shape[1] - 1) for option in options[row]]
        scores[place, : len(columns)] = said[place, columns]
    return scores


def combine(
    scores: Sequence[Floats], base_log_p: Floats, offered: NDArray[np.bool_], weights: Sequence[float]
) -> Floats:
    """(n, K) each of them → q (n, K), rows sum to 1. weights: of each of `scores`, then b."""
    logits = weights[-1] * base_log_p
    for weight, one in zip(weights, scores, strict=False):
        logits = logits + weight * (one + STEEPER * np.minimum(one - KINK, 0.0))
    logits = np.where(offered, logits, -np.inf)
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


def find_weights(
    scores: Sequence[Floats],
    base_log_p: Floats,
    offered: NDArray[np.bool_],
    action: NDArray[np.int64],
    reward: Floats,
    noise: float,
) -> Sequence[float]:
    """The weights for which − r log ρ − (1 − r) log(1 − ρ) is least, ρ = η + (1 − 2η) q(action).

    `action` and `reward` are (n,). Rows whose reward is NaN say nothing.
    """
    from scipy.optimize import minimize

    known = ~np.isnan(reward)
    scores, base_log_p, offered = [one[known] for one in scores], base_log_p[known], offered[known]
    action, reward = action[known], reward[known]
    some = slice(None, None, -(-len(action) // MOST_CALIBRATED))
    scores, base_log_p, offered = [one[some] for one in scores], base_log_p[some], offered[some]
    action, reward = action[some], reward[some]
    rows = np.arange(len(action))

    def cost(weights: Sequence[float]) -> float:
        q = combine(scores, base_log_p, offered, weights)[rows, action]
        right = np.clip(noise + (1 - 2 * noise) * q, 1e-6, 1 - 1e-6)
        return float(-(reward * np.log(right) + (1 - reward) * np.log1p(-right)).mean())

    start = [*[START / len(scores)] * len(scores), BASE_START]
    bounds = [*[(0.0, MOST_WEIGHT)] * len(scores), (0.0, MOST_OF_BASE)]
    found = minimize(cost, start, method="Nelder-Mead", bounds=bounds, options={"maxiter": 30 * len(start)})
    return [float(one) for one in found.x]


def read_features(decisions: Decisions) -> list[Any]:
    """Of each row's prompt (n, f): its words, None where no two prompts share one; and the model's states, where these
    are wide."""
    features = [count_words([row.prompt for row in decisions.rows])]
    if hidden_size(decisions.model) >= WIDE:
        states = read_states(decisions.attempt, decisions.model, decisions.scorer, decisions.prompts, decisions.heads)
        features.append(states)
    return features


def guess_right(decisions: Decisions, rewards: Tensor, base_log_p: Tensor, settings: DirectMethod) -> Tensor:
    """(n, K): q(a | x), the chance that an option is right; 0 for what was not offered. On the CPU.

    `rewards` (n,) in [0, 1], what was said of each decision, or NaN where nothing was; `base_log_p` (n, K) of
    `what_acted`.
    """
    attempt = decisions.attempt
    attempt.events.progress(0, 1, "fitting the direct method", PREPARING)
    reward = rewards.double().numpy()
    actions = [row.action for row in decisions.rows]
    features = read_features(decisions)
    scores = [
        score_apart(
            one,
            actions,
            reward,
            decisions.options,
            folds=settings.folds,
            seed=attempt.spec.seed,
            stop=attempt.stop,
        )
        for one in features
    ]
    base, offered, action = base_log_p.double().numpy(), decisions.offered.numpy(), decisions.actions.cpu().numpy()
    # Replayed rows taught the base, which knows them by heart: they say nothing of how far to trust it.
    n = decisions.logged
    of_logged = [one[:n] for one in scores]
    weights = find_weights(of_logged, base[:n], offered[:n], action[:n], reward[:n], settings.feedback_noise)
    return torch.from_numpy(combine(scores, base, offered, weights)).float()


def what_acted(decisions: Decisions, start: Tensor | None = None) -> Tensor:
    """(n, K) log-probabilities of each row's options, on the CPU: what the deciding model thought, where the row says
    it, which is often better, and that model had not seen the row; else what the starting policy thinks.

    `start` (n, K) are the starting policy's. Without it only the rows that need them are scored, and replayed ones are
    left at 0: their answer is known.
    """
    rows = decisions.rows[: decisions.logged]
    if start is not None:
        log_p = start.to("cpu", copy=True)
    else:
        log_p = torch.zeros(decisions.offered.shape)
        unsaid = [place for place, row in enumerate(rows) if row.probabilities is None]
        if unsaid:
            scored = decisions.score(unsaid).cpu()
            log_p[unsaid, : scored.shape[1]] = scored
    for place, row in enumerate(rows):
        if row.probabilities is not None:
            log_p[place, : len(row.probabilities)] = torch.tensor(row.probabilities).clamp(min=LOGGED_FLOOR).log()
    return log_p
