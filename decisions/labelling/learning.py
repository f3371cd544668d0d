"""Learns what to suggest from labels: each part of the answer by itself, and whether all of them together are right.
PURE.

An answer names the value of each part, as text (`decisions.labelling.targets`). A part with fixed values is classified
by the decision's words (`classifier`), one whose values differ from decision to decision by what they are like
(`slates`). Whether a whole answer is right is measured, too: on labels that none of its parts had seen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decisions.labelling.classifier import Fitted, TooFewLabels, fit
from decisions.labelling.promises import PRECISION, Promise, Top, make_promise
from decisions.labelling.slates import FittedSlates, Slate, fit_slates
from decisions.labelling.targets import Part, Target


@dataclass(frozen=True, slots=True)
class Case:
    """A decision, or a whole trace: its words, and by the names of parts the items that are on offer."""

    text: str
    slates: Mapping[str, Slate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Guess:
    """The likeliest value of each part that was learnt. `sure`: how probable each is right, calibrated, in [0, 1];
    `together`: how probable all are, None where that was not learnt. `margin`: how much likelier each is than the next
    value of its part, the product of all, in [0, 1] (Scheffer, Decomain and Wrobel 2001, "Active hidden Markov models
    for information extraction"): the smaller, the more it doubts."""

    values: Mapping[str, str]
    sure: Mapping[str, float]
    together: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class LearntPart:
    """`reason` says why it was not learnt; empty where it was. `values`: how many it may take."""

    part: Part
    labels: int
    values: int
    promise: Promise | None
    reason: str = ""
    model: Fitted | FittedSlates | None = None
    always: str | None = None
    """The only value that the labels have."""

    def predict(self, cases: Sequence[Case]) -> list[Top | None]:
        """None where the case offers no items."""
        if self.always is not None:
            return [Top(self.always, 1.0, 1.0)] * len(cases)
        if isinstance(self.model, Fitted):
            return list(self.model.predict([case.text for case in cases]))
        assert self.model is not None
        slates = [case.slates.get(self.part.name) for case in cases]
        found = iter(self.model.predict([slate for slate in slates if slate is not None]))
        return [None if slate is None else next(found) for slate in slates]


@dataclass(frozen=True, slots=True)
class Learnt:
    """`labels`: how many it was given. `together`: what whole answers promise, None where a part is missing."""

    labels: int
    parts: tuple[LearntPart, ...]
    together: Promise | None

    def guess(self, cases: Sequence[Case]) -> list[Guess]:
        known = [part for part in self.parts if not part.reason]
        columns = [part.predict(cases) for part in known]
        calibrated = [
            part.promise.calibrate([0.0 if top is None else top.probability for top in column])
            if part.promise is not None
            else [1.0] * len(cases)
            for part, column in zip(known, columns, strict=True)
        ]
        rows = [[column[place] for column in columns] for place in range(len(cases))]
        tops = [math.prod(top.probability for top in row if top is not None) for row in rows]
        together = self.together.calibrate(tops) if self.together is not None else None
        guesses = []
        for place, row in enumerate(rows):
            named = [
                (part.part.name, top.answer, sure[place])
                for part, top, sure in zip(known, row, calibrated, strict=True)
                if top is not None
            ]
            complete = together is not None and len(named) == len(self.parts)
            guesses.append(
                Guess(
                    {name: value for name, value, _ in named},
                    {name: sure for name, _, sure in named},
                    together[place] if together is not None and complete else None,
                    math.prod(top.margin for top in row if top is not None),
                )
            )
        return guesses


def learn(
    target: Target,
    cases: Sequence[Case],
    answers: Sequence[Mapping[str, str]],
    *,
    precision: float = PRECISION,
    seed: int = 0,
) -> Learnt:
    """cases, answers: of labels. Raises TooFewLabels where no part can be learnt."""
    parts, unseen = [], []
    for part in target.parts:
        made, found = _learn_part(part, cases, answers, precision, seed)
        parts.append(made)
        unseen.append(found)
    if all(part.model is None for part in parts):
        raise TooFewLabels(_first_reason(parts))
    together = None
    if target.whole and not any(part.reason for part in parts):
        together = parts[0].promise if len(parts) == 1 else _promise_together(target, parts, unseen, answers, precision)
    return Learnt(len(cases), tuple(parts), together)


def _first_reason(parts: Sequence[LearntPart]) -> str:
    reasons = [f"{part.part.name}: {part.reason}" if part.part.name else part.reason for part in parts if part.reason]
    return reasons[0] if reasons else f"The {parts[0].labels} labels say the same of everything."


Unseen = dict[int, Top]
"""By the place of the label: what the part's model says that had not seen it."""


def _learn_part(
    part: Part, cases: Sequence[Case], answers: Sequence[Mapping[str, str]], precision: float, seed: int
) -> tuple[LearntPart, Unseen]:
    name = part.name
    if part.items:
        kept = [
            place
            for place, (case, answer) in enumerate(zip(cases, answers, strict=True))
            if (slate := case.slates.get(name)) is not None and answer.get(name) in slate.items
        ]
    else:
        kept = [place for place, answer in enumerate(answers) if name in answer]
    given = [answers[place][name] for place in kept]
    values = len(set(given))
    model: Fitted | FittedSlates
    if values == 1 and not part.items and len(kept) > 1 and name:
        return LearntPart(part, len(kept), 1, None, always=given[0]), dict.fromkeys(kept, Top(given[0], 1.0, 1.0))
    try:
        if part.items:
            slates = [cases[place].slates[name] for place in kept]
            model = fit_slates(slates, given, precision=precision, seed=seed)
        else:
            model = fit([cases[place].text for place in kept], given, precision=precision, seed=seed)
    except TooFewLabels as error:
        return LearntPart(part, len(kept), values, None, str(error)), {}
    return LearntPart(part, model.labels, values, model.promise, model=model), dict(
        zip(kept, model.unseen, strict=True)
    )


def _promise_together(
    target: Target,
    parts: Sequence[LearntPart],
    unseen: Sequence[Unseen],
    answers: Sequence[Mapping[str, str]],
    precision: float,
) -> Promise | None:
    names = [part.name for part in target.parts]
    places = [place for place in range(len(answers)) if all(place in found for found in unseen)]
    if not places:
        return None
    tops = [math.prod(found[place].probability for found in unseen) for place in places]
    hits = [
        int(all(found[place].answer == answers[place][name] for name, found in zip(names, unseen, strict=True)))
        for place in places
    ]
    fixed = [part.name for part in target.parts if not part.items]
    commonest = Counter(tuple(answers[place][name] for name in fixed) for place in places).most_common(1)[0][1]
    offered = [made.promise.baseline for made in parts if made.part.items and made.promise is not None]
    baseline = commonest / len(places) * math.prod(offered)
    return make_promise(tops, hits, baseline=baseline, precision=precision)
