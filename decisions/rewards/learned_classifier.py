"""How likely people are to call a trace right, learnt from the traces that they judged. PURE.

Words, pairs of words and, where an action is named, each word together with the action are counted (tf-idf); logistic
regression scores them. Platt scaling (Platt 1999, "Probabilistic outputs for support vector machines") makes
probabilities of the scores, 1 / (1 + exp(−(slope · score + offset))), fitted on scores of traces that the regression
had not seen; where these say nothing, or the reverse, everything gets the share of right ones. A judged trace is scored
by the model of its fold, whose words, weights and calibration all come from the other folds: no trace is scored by what
saw its own label. scikit-learn is loaded when something is fitted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from decisions.rewards.components.texts import words

FEWEST = 10
"""Traces that were right, and as many that were wrong: below it nothing is learnt."""
FOLDS, INNER_FOLDS = 5, 3
LONGEST_TEXT = 4_000
LONGEST_ACTION = 60
"""An action with more characters is a text, and not crossed with the words."""
_SEPARATOR = "\x1f"
T = TypeVar("T")


class TooFewLabels(ValueError):
    """There is nothing to learn from yet; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Judged(Generic[T]):
    """A trace by its `key`, as `write_document` gives it, and whether people found all of it right."""

    key: T
    document: str
    right: bool


@dataclass(frozen=True, slots=True)
class Model:
    """`pipeline` scores a document; `slope` ≥ 0 and `offset` make a probability of it."""

    pipeline: Any
    slope: float
    offset: float

    def probability(self, document: str) -> float:
        score = float(self.pipeline.decision_function([document])[0])
        return 1.0 / (1.0 + math.exp(-max(-500.0, min(500.0, self.slope * score + self.offset))))


@dataclass(frozen=True, slots=True)
class Fitted(Generic[T]):
    """`right`, `wrong`: how many traces of each it learnt from."""

    right: int
    wrong: int
    _whole: Model
    _folds: Sequence[Model]
    _fold_of: Mapping[T, int]

    def score(self, key: T, document: str) -> float:
        """The probability in [0, 1] that people call the trace right."""
        fold = self._fold_of.get(key)
        return (self._whole if fold is None else self._folds[fold]).probability(document)


def write_document(text: str, action: str = "") -> str:
    """What the classifier reads of a trace, or of a decision without one; empty where there is no word in it."""
    named = action if len(action) <= LONGEST_ACTION else ""
    whole = f"{text[:LONGEST_TEXT]} {action[:LONGEST_TEXT]}"
    return f"{named.replace(_SEPARATOR, ' ')}{_SEPARATOR}{whole}" if words(whole) else ""


def fit(judged: Sequence[Judged[T]], *, seed: int = 0) -> Fitted[T]:
    """Of traces with a document, each of them once, in any order. Raises TooFewLabels."""
    from sklearn.model_selection import StratifiedKFold

    ordered = sorted(judged, key=lambda one: str(one.key))
    right = sum(one.right for one in ordered)
    wrong = len(ordered) - right
    if min(right, wrong) < FEWEST:
        raise TooFewLabels(
            f"People judged {right} traces right and {wrong} wrong; at least {FEWEST} of each are needed"
        )
    documents, labels = [one.document for one in ordered], [int(one.right) for one in ordered]
    folds, fold_of = [], {}
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(documents, labels)
    for number, (others, own) in enumerate(splits):
        folds.append(_fit(documents, labels, others.tolist(), seed))
        fold_of.update({ordered[place].key: number for place in own.tolist()})
    whole = _fit(documents, labels, range(len(ordered)), seed)
    return Fitted(right, wrong, whole, folds, fold_of)


def _fit(documents: Sequence[str], labels: Sequence[int], places: Sequence[int], seed: int) -> Model:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    said, right = [documents[place] for place in places], [labels[place] for place in places]
    counted = TfidfVectorizer(analyzer=_tokens, sublinear_tf=True, max_features=50_000)
    pipeline = make_pipeline(counted, LogisticRegression(solver="liblinear", random_state=seed))
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    unseen = cross_val_predict(pipeline, said, right, cv=inner, method="decision_function")
    platt = LogisticRegression().fit(unseen.reshape(-1, 1), right)
    slope, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    if slope <= 0.0:
        slope, offset = 0.0, math.log((sum(right) + 1) / (len(right) - sum(right) + 1))
    return Model(pipeline.fit(said, right), slope, offset)


def _tokens(document: str) -> list[str]:
    action, _, text = document.partition(_SEPARATOR)
    found = words(text)
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(found)]
    return [*found, *pairs, *(f"{action}{_SEPARATOR}{word}" for word in found if action)]
