"""Fits a head: cross-entropy on right answers, the likelihood of feedback on logged decisions, minibatches of Adam.

With p = p(a | x) of the logged action, η the chance that feedback says the opposite of the truth, and r in [0, 1]:

    loss = − log p(y | x)                                            of a row with the right option y
    loss = − r log ρ − (1 − r) log(1 − ρ),  ρ = (1 − η) p + η (1 − p)  of a logged row

A wrong action so lowers its own probability and nothing else. No propensity is needed: whoever chose the actions, the
feedback on them has this likelihood. Means over all rows, and λ Σ w² beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.engine.attempt.attempt import Attempt
from training.engine.classifiers.options import columns_of, name_of, parts_of
from training.engine.classifiers.policy import SHARPNESS, Features, Floats, Head
from training.engine.rows.types import Labelled, Logged
from training.engine.spec.refused import Refused

BATCH = 256
FEWEST_STEPS = 200
MOST_OPTIONS = 4_096
LEARNING_RATE = {"bias": 0.05, "encoder": 0.05, "words": 0.5, "names": 0.05}
"""The highest, half way up OneCycle's slope."""
TEMPERATURES = np.logspace(-1.7, 1.0, 109)
LEAST = 1e-6
LEAST_PENALTY = {"encoder": 2e-4, "words": 1e-5}
"""Of the sum of squared weights, beside the mean loss."""
MULTIPLES = (1.0, 8.0, 50.0)
"""Few rows and many options differ a hundredfold in the penalty that suits them."""
WHOLES_COST = 30.0
"""The penalty on weights of a structured action as a whole, as a multiple of that on its fields'."""

Say = Callable[[int, int, float], None]
"""(step, total steps, loss) → nothing: hears of the fit, and may raise Stopped."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """What is learnt from, in one order: n rows with their features. `target` (n,): the place, among `options`, of the
    right option of a labelled row or of the action of a logged one; `reward` (n,) is NaN for labelled rows.
    `offered` (n,): which of `sets` a row chose from, as places among `options`."""

    features: Features
    options: tuple[str, ...]
    sets: Sequence[NDArray[np.int64]]
    offered: NDArray[np.int64]
    target: NDArray[np.int64]
    reward: NDArray[np.float32]
    groups: Sequence[str]

    def __len__(self) -> int:
        return len(self.target)

    def take(self, places: NDArray[np.int64]) -> Lessons:
        return Lessons(
            self.features.take(places),
            self.options,
            self.sets,
            self.offered[places],
            self.target[places],
            self.reward[places],
            [self.groups[place] for place in places.tolist()],
        )


def gather(features: Features, rows: Sequence[Labelled | Logged], rewards: Sequence[float | None]) -> Lessons:
    """`rewards`: of each row in [0, 1], None of a labelled one. Raises Refused for more than 4,096 distinct options."""
    options = tuple(sorted({option for row in rows for option in row.options}))
    if len(options) > MOST_OPTIONS:
        raise Refused(
            f"the rows have {len(options)} distinct options, and a classifier learns at most {MOST_OPTIONS}: "
            "train a language model, which reads them in the prompt"
        )
    place_of = {option: place for place, option in enumerate(options)}
    sets: dict[tuple[str, ...], int] = {}
    offered = [sets.setdefault(row.options, len(sets)) for row in rows]
    chosen = [row.answer if isinstance(row, Labelled) else row.action for row in rows]
    return Lessons(
        features,
        options,
        [np.array([place_of[option] for option in names]) for names in sets],
        np.array(offered),
        np.array([place_of[option] for option in chosen]),
        np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float32),
        [row.group or row.id for row in rows],
    )


class _Model(nn.Module):
    """The head in training: (n, K) logits of all options of the lessons, temperature 1."""

    def __init__(self, lessons: Lessons, names: Floats | None, device: torch.device) -> None:
        super().__init__()
        self.columns = columns_of(lessons.options)
        place_of = {column: place for place, column in enumerate(self.columns)}
        incidence = torch.zeros(len(lessons.options), len(self.columns), device=device)
        for row, option in enumerate(lessons.options):
            for part in parts_of(option):
                incidence[row, place_of[part]] = 1.0
        self.incidence = incidence
        width = len(self.columns)
        # Of a structured action the whole says only what its fields do not: else a combination that few rows had would
        # be taken for a wrong one.
        wholes = {option for option in lessons.options if len(parts_of(option)) > 1}
        dearness = [WHOLES_COST if column in wholes else 1.0 for column in self.columns]
        self.dearness = torch.tensor(dearness, device=device)
        self.bias = nn.Parameter(torch.zeros(width, device=device))
        features = lessons.features
        self.encoder = self._zeros(None if features.vectors is None else features.vectors.shape[1], width, device)
        self.words = self._zeros(None if features.counted is None else features.counted.shape[1], width, device)
        self.names = torch.tensor(1.0, device=device)
        self.of_names: Tensor | None = None
        if names is not None:
            self.names = nn.Parameter(self.names)
            self.of_names = torch.from_numpy(names.T.copy()).to(device)

    @staticmethod
    def _zeros(size: int | None, width: int, device: torch.device) -> nn.Parameter | None:
        return None if size is None else nn.Parameter(torch.zeros(size, width, device=device))

    def forward(self, features: Features) -> Tensor:
        device = self.bias.device
        of_columns = self.bias.expand(len(features), -1)
        of_names: Tensor | float = 0.0
        if self.encoder is not None and features.vectors is not None:
            vectors = torch.from_numpy(features.vectors).to(device)
            of_columns = of_columns + SHARPNESS * (vectors @ self.encoder)
            if self.of_names is not None:
                of_names = self.names * SHARPNESS * (vectors @ self.of_names)
        if self.words is not None and features.counted is not None:
            counted = features.counted
            of_columns = of_columns + nn.functional.embedding_bag(
                torch.from_numpy(counted.indices.astype(np.int64)).to(device),
                self.words,
                torch.from_numpy(counted.indptr[:-1].astype(np.int64)).to(device),
                mode="sum",
                per_sample_weights=torch.from_numpy(counted.data).to(device),
            )
        return of_columns @ self.incidence.T + of_names

    def penalty(self, multiple: float) -> Tensor:
        total = torch.zeros((), device=self.bias.device)
        if self.encoder is not None:
            total = total + LEAST_PENALTY["encoder"] * (self.encoder.square() * self.dearness).sum()
        if self.words is not None:
            total = total + LEAST_PENALTY["words"] * (self.words.square() * self.dearness).sum()
        total = total + LEAST_PENALTY["encoder"] * (self.bias.square() * (self.dearness - 1)).sum()
        return multiple * total

    def groups(self) -> list[dict[str, object]]:
        return [
            {"params": [parameter], "lr": LEARNING_RATE[name]}
            for name, parameter in self.named_parameters(recurse=False)
        ]

    def head(self, temperature: float) -> Head:
        weights = {
            name: parameter.detach().cpu().numpy()
            for name, parameter in (("encoder", self.encoder), ("words", self.words))
            if parameter is not None
        }
        of_names = max(0.0, float(self.names.detach())) if self.of_names is not None else 0.0
        return Head(self.columns, weights, self.bias.detach().cpu().numpy(), of_names, temperature)


def fit_head(attempt: Attempt, lessons: Lessons, names: Floats | None, penalty: float, say: Say) -> tuple[_Model, int]:
    """Fits a head; returns it and the number of its updates. `names` (K, d): vectors of the options' names.
    `penalty`: as a multiple of the least one."""
    settings = attempt.spec.classifier
    device = attempt.device
    model = _Model(lessons, names, device)
    batches = -(-len(lessons) // BATCH)
    epochs = max(settings.epochs, -(-FEWEST_STEPS // batches))
    total = batches * epochs
    groups = model.groups()
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, [float(str(group["lr"])) for group in groups], total_steps=total + 1
    )
    generator = np.random.default_rng(attempt.spec.seed)
    step = 0
    for _ in range(epochs):
        order = generator.permutation(len(lessons))
        for begin in range(0, len(lessons), BATCH):
            part = lessons.take(np.sort(order[begin : begin + BATCH]))
            loss = costs(model(part.features), part, settings.feedback_noise).mean() + model.penalty(penalty)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            step += 1
            say(step, total, float(loss.detach()))
    return model, total


def costs(logits: Tensor, lessons: Lessons, noise: float, temperature: float = 1.0) -> Tensor:
    """(n, K) logits → (n,) the loss of each row, over the options that it offered."""
    device = logits.device
    outside = np.ones((len(lessons), logits.shape[1]), dtype=bool)
    for row, offered in enumerate(lessons.offered.tolist()):
        outside[row, lessons.sets[offered]] = False
    masked = (logits / temperature).masked_fill(torch.from_numpy(outside).to(device), float("-inf"))
    target = torch.from_numpy(lessons.target).to(device)
    log_p = masked.log_softmax(1).gather(1, target[:, None])[:, 0]
    reward = torch.from_numpy(lessons.reward).to(device)
    logged = ~reward.isnan()
    p = log_p.exp()
    right = ((1 - noise) * p + noise * (1 - p)).clamp(LEAST, 1 - LEAST)
    r = reward.nan_to_num()
    return torch.where(logged, -(r * right.log() + (1 - r) * (1 - right).log()), -log_p)


@torch.no_grad()
def find_temperature(model: _Model, held: Lessons, noise: float) -> tuple[float, float]:
    """Finds the temperature under which rows that the head has not seen cost least, and their mean cost then."""
    logits = model(held.features)
    losses = [float(costs(logits, held, noise, float(temperature)).mean()) for temperature in TEMPERATURES]
    best = int(np.argmin(losses))
    return float(TEMPERATURES[best]), losses[best]


def name_vectors(lessons: Lessons, embed: Callable[[Sequence[str]], Floats]) -> Floats:
    """Embeds the options' names: (K, d)."""
    return embed([name_of(option) for option in lessons.options])
