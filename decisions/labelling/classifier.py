"""Suggests the right action from people's labels, with calibrated confidence, and abstains where it would guess. PURE.

Text is counted by words and by pieces of words (tf-idf), and classified by multinomial logistic regression. Everything
that is said of its confidence comes from labels that the classifier had not seen: out-of-fold predictions are
calibrated by isotonic regression (Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass
probability estimates"), and the threshold is the lowest at which the lower end of Wilson's 95 % interval of the
precision reaches what was asked for. scikit-learn is loaded when something is fitted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FEWEST_LABELS = 50
FEWEST_OF_AN_ACTION = 5
"""Labels without which an action is never suggested."""
FOLDS = 5
PRECISION = 0.95
COST = 0.5
"""Of the support vector machines: their C."""
LONGEST = 4_000
"""Characters."""
Z = 1.6448536269514722
"""One-sided 95 %."""


class TooFewLabels(ValueError):
    """There is nothing to learn from yet; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """confidence: the calibrated probability that `action` is right, in [0, 1]."""

    action: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Classifier:
    """Says for each text how probable each of `actions` is; not calibrated."""

    actions: tuple[str, ...]
    _pipeline: Any

    def probabilities(self, texts: Sequence[str]) -> Any:
        """An array (texts, actions)."""
        return self._pipeline.predict_proba(texts)

    def choose(self, texts: Sequence[str]) -> list[str]:
        """The likeliest action of each text."""
        return [self.actions[place] for place in self.probabilities(texts).argmax(axis=1)] if texts else []

    def margins(self, texts: Sequence[str]) -> list[float]:
        """p of the likeliest action less p of the second, in [0, 1]: the smaller, the more it doubts (Scheffer,
        Decomain and Wrobel 2001, "Active hidden Markov models for information extraction")."""
        if not texts:
            return []
        found = self.probabilities(texts)
        found.sort(axis=1)
        return [float(row[-1] - row[-2]) for row in found]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A classifier, and what its out-of-fold predictions promise.

    threshold: calibrated confidence from which it suggests; above 1 where it never may. precision, coverage: of the
    labels above the threshold, out of fold. labels: how many it learnt from.
    """

    labels: int
    classifier: Classifier
    threshold: float
    precision: float | None
    coverage: float
    _calibration: Any

    def suggest(self, texts: Sequence[str]) -> list[Suggestion | None]:
        """One for each text; None where it abstains."""
        if not texts:
            return []
        probabilities = self.classifier.probabilities(texts)
        places = probabilities.argmax(axis=1)
        confidence = self._calibration.predict(probabilities.max(axis=1))
        return [
            Suggestion(self.classifier.actions[place], float(sure)) if sure >= self.threshold else None
            for place, sure in zip(places, confidence, strict=True)
        ]


def learn(texts: Sequence[str], actions: Sequence[str], *, seed: int = 0) -> Classifier:
    """texts, actions: of labelled decisions, the right action for each, of two actions or more."""
    known = sorted(set(actions))
    return Classifier(tuple(known), _pipeline(seed).fit(texts, [known.index(action) for action in actions]))


def fit(texts: Sequence[str], actions: Sequence[str], *, precision: float = PRECISION, seed: int = 0) -> Fitted:
    """texts, actions: of labelled decisions, the right action for each. precision: of suggestions, in (0, 1).

    Raises TooFewLabels.
    """
    from sklearn.isotonic import IsotonicRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    counts = Counter(actions)
    known = sorted(action for action, count in counts.items() if count >= FEWEST_OF_AN_ACTION)
    kept = [place for place, action in enumerate(actions) if action in set(known)]
    if len(kept) < FEWEST_LABELS or len(known) < 2:
        raise TooFewLabels(
            f"{len(actions)} labels; at least {FEWEST_LABELS} are needed, of two actions or more with"
            f" {FEWEST_OF_AN_ACTION} each"
        )
    said, right = [texts[place] for place in kept], [known.index(actions[place]) for place in kept]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    unseen = cross_val_predict(_pipeline(seed), said, right, cv=folds, method="predict_proba")
    hits = [int(row.argmax() == answer) for row, answer in zip(unseen, right, strict=True)]
    tops = unseen.max(axis=1)
    # A label of an action that is too rare would have been answered wrongly.
    rare = len(actions) - len(kept)
    calibration = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(tops, hits)
    threshold, reached, coverage = _choose(calibration.predict(tops).tolist(), hits, rare, precision)
    classifier = learn(said, [known[answer] for answer in right], seed=seed)
    return Fitted(len(kept), classifier, threshold, reached, coverage, calibration)


def wilson_low(hits: int, count: int) -> float:
    """The lower end of Wilson's one-sided 95 % interval of hits / count, count ≥ 1."""
    share = hits / count
    centre = share + Z * Z / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return (centre - spread) / (1 + Z * Z / count)


def _choose(
    confidence: Sequence[float], hits: Sequence[int], rare: int, precision: float
) -> tuple[float, float | None, float]:
    """The lowest threshold that keeps the precision, and the precision and coverage that it has; ties stay together."""
    best: tuple[float, float | None, float] = (2.0, None, 0.0)
    right = count = 0
    ordered = sorted(zip(confidence, hits, strict=True), reverse=True)
    for place, (sure, hit) in enumerate(ordered):
        right, count = right + hit, count + 1
        last_of_its_kind = place + 1 == len(ordered) or ordered[place + 1][0] < sure
        if last_of_its_kind and wilson_low(right, count) >= precision:
            best = (sure, right / count, count / (len(ordered) + rare))
    return best


def make_features(*, seen_in: int = 1) -> Any:
    """tf-idf of words, pairs of words and pieces of words, to be fitted; those in fewer than `seen_in` texts are left
    out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    told: dict[str, Any] = {"sublinear_tf": True, "max_features": 50_000, "min_df": seen_in}
    words = TfidfVectorizer(ngram_range=(1, 2), **told)
    pieces = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), **told)
    return make_union(words, pieces)


@dataclass(frozen=True, slots=True)
class Machines:
    """A linear support vector machine for each of `actions`, against the others."""

    actions: tuple[str, ...]
    _fitted: Any

    def score(self, counted: Any) -> Any:
        """Features (n, f) → an array (n, actions): above 0 where the text is rather the action's."""
        scores = self._fitted.decision_function(counted)
        if scores.ndim > 1:
            return scores
        two = scores[:, None].repeat(2, axis=1)  # of two actions scikit-learn has one machine
        two[:, 0] *= -1
        return two


def learn_machines(counted: Any, actions: Sequence[str], *, weights: Any = None, seed: int = 0) -> Machines:
    """counted (n, f): of `make_features`. actions: the right one of each row, of two or more. weights (n,) ≥ 0."""
    from sklearn.svm import LinearSVC

    known = sorted(set(actions))
    place_of = {action: place for place, action in enumerate(known)}
    fitted = LinearSVC(C=COST, random_state=seed)
    return Machines(tuple(known), fitted.fit(counted, [place_of[one] for one in actions], sample_weight=weights))


def shorten(text: str) -> str:
    """What of a long text is counted: its beginning and its end."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"


def _pipeline(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(make_features(), LogisticRegression(C=20.0, max_iter=1000, random_state=seed))
