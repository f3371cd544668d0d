"""The direct method: P(option is right | prompt) learned from logged decisions, without the language model's weights.

A softmax over the row's options with scores

    t · log p_base(a | x) + Σ_{f in x} W[f, a] + b[a],      f: the prompt's tokens and hashed pairs of tokens,

is fitted by the likelihood of the feedback: the action was right with probability q(a), and feedback says the opposite
of the truth with chance η. It is cross-fitted: each row is predicted by a fit that never saw it. The prediction is the
mean of a fit with and one without the base's log-probabilities. Called by the methods posterior and all_action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.engine.actions import NO_OPTION
from training.engine.offline import Decisions
from training.engine.rows import Logged
from training.engine.settings import RewardModel
from training.engine.stop import StopFlag

LEARNING_RATE = 0.05
BATCH = 128
PAIR_HASHES = 1 << 18
MAX_COLUMNS = 512
"""Distinct options that get weights of their own; rarer ones share a column and lean on the base's offset."""
SEEN_IN = 2
"""Rows in which a feature must occur: one seen once cannot carry anything from a fit to a row outside of it."""


LOGGED_FLOOR = 1e-6
"""Least probability that a deciding model is taken to have given to an option."""


class Feedback(NamedTuple):
    """What was tried. `options` (n, K) columns of each row's options, `offered` (n, K), `action` (n,) place in the
    row, `reward` (n,) in [0, 1], `base_log_p` (n, K)."""

    columns: Tensor
    offered: Tensor
    action: Tensor
    reward: Tensor
    base_log_p: Tensor


@dataclass(frozen=True, slots=True)
class Bags:
    """Sparse rows: the features of row i are `features[starts[i] : starts[i] + counts[i]]`. Feature 0 is constant."""

    features: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    size: int

    def take(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Flat features and offsets of these rows, as embedding_bag wants them."""
        counts = self.counts[rows]
        offsets = np.concatenate([[0], counts.cumsum()[:-1]])
        within = np.arange(counts.sum()) - np.repeat(offsets, counts)
        return torch.from_numpy(self.features[np.repeat(self.starts[rows], counts) + within]), torch.from_numpy(offsets)


def bag_features(contents: Sequence[Sequence[int]]) -> Bags:
    """Distinct tokens and hashed neighbouring pairs of each prompt, those that occur in at least two rows."""
    flat: list[NDArray[np.int64]] = []
    for content in contents:
        tokens = np.asarray(content, dtype=np.int64)
        pairs = PAIR_HASHES + (tokens[:-1] * 1_000_003 + tokens[1:] * 8_191) % PAIR_HASHES
        flat.append(np.unique(np.concatenate([tokens, pairs + (1 << 32)])))
    counts = np.array([len(row) for row in flat], dtype=np.int64)
    _, numbered, seen = np.unique(np.concatenate(flat), return_inverse=True, return_counts=True)
    kept = seen >= SEEN_IN
    compact = np.where(kept, kept.cumsum(), 0)[numbered]
    # Features that were dropped become the constant, once a row, so that no bag is empty.
    row_of = np.repeat(np.arange(len(flat)), counts)
    rows, features = np.concatenate([row_of, np.arange(len(flat))]), np.concatenate([compact, np.zeros(len(flat))])
    pairs_of = np.unique(np.stack([rows, features.astype(np.int64)]), axis=1)
    counts = np.bincount(pairs_of[0], minlength=len(flat)).astype(np.int64)
    starts = np.concatenate([[0], counts.cumsum()[:-1]]).astype(np.int64)
    return Bags(pairs_of[1], starts, counts, int(kept.sum()) + 1)


def option_columns(options: Sequence[Sequence[str]], width: int) -> tuple[Tensor, Tensor, int]:
    """(columns (n, width), offered (n, width), number of columns); options are told apart by their text."""
    counted = Counter(option for row in options for option in row)
    named = {option: place for place, (option, _) in enumerate(counted.most_common(MAX_COLUMNS))}
    shared = len(named)
    columns = torch.zeros(len(options), width, dtype=torch.long)
    offered = torch.zeros(len(options), width, dtype=torch.bool)
    known: dict[tuple[str, ...], list[int]] = {}
    for row, texts in enumerate(options):
        places = known.setdefault(tuple(texts), [])
        if not places:
            places.extend(named.get(text, shared) for text in texts)
        columns[row, : len(places)] = torch.tensor(places)
        offered[row, : len(places)] = True
    return columns, offered, len(named) + (len(counted) > MAX_COLUMNS)


class _Fits(nn.Module):
    """All fits at once: M = 2 · folds models side by side, so that a batch's features are gathered once."""

    def __init__(self, features: int, columns: int, models: int) -> None:
        super().__init__()
        self.models, self.columns = models, columns
        self.weights = nn.Parameter(torch.zeros(features, models * columns))
        self.bias = nn.Parameter(torch.zeros(models, columns))
        self.log_scale = nn.Parameter(torch.zeros(models, 1, 1))
        # The first half ignores the base, the second builds on it.
        self.uses_base = (torch.arange(models) >= models // 2).float()[:, None, None]

    def forward(self, bag: tuple[Tensor, Tensor], feedback: Feedback) -> Tensor:
        """Log-probabilities (M, B, K) over each row's options."""
        scores = nn.functional.embedding_bag(bag[0], self.weights, bag[1], mode="sum")
        scores = scores.view(-1, self.models, self.columns).transpose(0, 1) + self.bias[:, None]
        scores = scores.gather(2, feedback.columns.expand(self.models, -1, -1))
        scores = scores + self.uses_base * self.log_scale.exp() * feedback.base_log_p
        return scores.masked_fill(~feedback.offered, NO_OPTION).log_softmax(-1)


def cross_fit(
    bags: Bags, feedback: Feedback, columns: int, *, noise: float, folds: int, epochs: int, seed: int, stop: StopFlag
) -> Tensor:
    """(n, K): P(option is right), each row predicted by the fits that left its fold out. Runs on the CPU."""
    rows = len(feedback.action)
    generator = torch.Generator().manual_seed(seed)
    fold = torch.randperm(rows, generator=generator) % folds
    left_out = torch.arange(folds).repeat(2)  # model m never sees the rows of this fold
    fits = _Fits(bags.size, columns, 2 * folds)
    optimiser = torch.optim.Adam(fits.parameters(), lr=LEARNING_RATE)
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * (1 - epoch / epochs)
        # A batch of BATCH · folds / (folds − 1) rows gives each fit BATCH of its own.
        for batch in torch.randperm(rows, generator=generator).split(-(-BATCH * folds // (folds - 1))):  # type: ignore[no-untyped-call]
            stop.check()
            part = _part(feedback, batch)
            log_p = fits(bags.take(batch.numpy()), part)
            action = part.action.view(1, -1, 1).expand(2 * folds, -1, 1)
            right = noise + (1 - 2 * noise) * log_p.gather(2, action)[..., 0].exp()
            right = right.clamp(1e-6, 1 - 1e-6)
            loss = -(part.reward * right.log() + (1 - part.reward) * torch.log1p(-right))
            sees = (fold[batch][None] != left_out[:, None]).float()
            optimiser.zero_grad(set_to_none=True)
            ((loss * sees).sum(1) / sees.sum(1).clamp(min=1)).sum().backward()
            optimiser.step()
    predicted = torch.zeros(feedback.base_log_p.shape)
    with torch.no_grad():
        for batch in torch.arange(rows).split(512):  # type: ignore[no-untyped-call]
            p = fits(bags.take(batch.numpy()), _part(feedback, batch)).exp()
            mine = (fold[batch][None] == left_out[:, None]).float()[..., None]
            predicted[batch] = (p * mine).sum(0) / 2
    return predicted


def guess_right(decisions: Decisions, rewards: Tensor, start: Tensor, settings: RewardModel) -> Tensor:
    """(n, K): q(a | x), the chance that an option is right; 0 for what was not offered. On the CPU.

    `rewards` (n,) in [0, 1], what was said of each decision; `start` (n, K) log-probabilities of the starting policy.
    """
    attempt = decisions.attempt
    attempt.events.progress(0, 1, "fitting the reward model")
    base_log_p = start.to("cpu", copy=True)
    take_logged_probabilities(base_log_p, decisions.rows)
    columns, offered, width = option_columns(decisions.options, base_log_p.shape[1])
    if width > MAX_COLUMNS:
        attempt.events.warn(f"over {MAX_COLUMNS} distinct options: the rare ones share the reward model's weights")
    q = cross_fit(
        bag_features([decisions.scorer.prompts.content(ids) for ids in decisions.prompts]),
        Feedback(columns, offered, decisions.actions.cpu(), rewards, base_log_p),
        width,
        noise=settings.feedback_noise,
        folds=settings.folds,
        epochs=settings.epochs,
        seed=attempt.spec.seed,
        stop=attempt.stop,
    )
    return q * offered


def take_logged_probabilities(log_p: Tensor, rows: Sequence[Logged]) -> None:
    """Writes what the deciding model thought over the base's guess (n, K): often better, and it had not seen the row.

    `rows` are the first of the n; K is at least the number of their options. Rows without it keep the base's guess.
    """
    for place, row in enumerate(rows):
        if row.probabilities is not None:
            log_p[place, : len(row.probabilities)] = torch.tensor(row.probabilities).clamp(min=LOGGED_FLOOR).log()


def _part(feedback: Feedback, rows: Tensor) -> Feedback:
    return Feedback(*(tensor[rows] for tensor in feedback))
