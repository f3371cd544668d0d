"""Suggests the right answer from people's labels, with calibrated confidence, and abstains where it would guess. PURE.

Text is counted by words and by pieces of words (tf-idf), and classified by multinomial logistic regression. Everything
that is said of its confidence comes from labels that the classifier had not seen (`decisions.labelling.promises`).
scikit-learn is loaded when something is fitted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decisions.labelling.promises import PRECISION, Promise, Top, make_promise

FEWEST_LABELS = 50
FEWEST_OF_AN_ACTION = 5
"""Labels without which an action is never suggested."""
FOLDS = 5
COST = 0.5
"""Of the support vector machines: their C."""
LONGEST = 4_000
"""Characters."""
_WORD = re.compile(r"\w\w")
"""What scikit-learn takes for a word."""


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
    """A classifier, and what it promises. labels: how many it learnt from. unseen: for each text that it was given, the
    likeliest action by a classifier that had not seen its label."""

    labels: int
    classifier: Classifier
    promise: Promise
    unseen: tuple[Top, ...]

    @property
    def precision(self) -> float | None:
        return self.promise.precision

    @property
    def coverage(self) -> float:
        return self.promise.coverage

    def predict(self, texts: Sequence[str]) -> list[Top]:
        """The likeliest action of each text."""
        return _likeliest(self.classifier, texts)

    def suggest(self, texts: Sequence[str]) -> list[Suggestion | None]:
        """One for each text; None where it abstains."""
        found = self.predict(texts)
        return [
            Suggestion(top.answer, sure) if sure >= self.promise.threshold else None
            for top, sure in zip(found, self.promise.calibrate([one.probability for one in found]), strict=True)
        ]


def learn(texts: Sequence[str], actions: Sequence[str], *, seed: int = 0) -> Classifier:
    """texts, actions: of labelled decisions, the right action for each, of two actions or more."""
    known = sorted(set(actions))
    return Classifier(tuple(known), _pipeline(seed).fit(texts, [known.index(action) for action in actions]))


def fit(texts: Sequence[str], actions: Sequence[str], *, precision: float = PRECISION, seed: int = 0) -> Fitted:
    """texts, actions: of labelled decisions, the right action for each. precision: of suggestions, in (0, 1).

    Raises TooFewLabels.
    """
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
    if 2 * sum(_WORD.search(text) is not None for text in said) < len(said):  # a fold could have no features at all
        raise TooFewLabels(f"{len(kept)} labels, but most of their decisions have no words to learn from")
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    probabilities = cross_val_predict(_pipeline(seed), said, right, cv=folds, method="predict_proba")
    classifier = learn(said, [known[answer] for answer in right], seed=seed)
    unseen = dict(zip(kept, _name(known, probabilities), strict=True))
    # The classifier has not seen labels of actions that are too rare, and answers each of them wrongly.
    rare = [place for place in range(len(actions)) if place not in unseen]
    unseen |= dict(zip(rare, _likeliest(classifier, [texts[place] for place in rare]), strict=True))
    ordered = tuple(unseen[place] for place in range(len(actions)))
    promise = make_promise(
        [top.probability for top in ordered],
        [int(top.answer == action) for top, action in zip(ordered, actions, strict=True)],
        baseline=max(counts.values()) / len(actions),
        precision=precision,
    )
    return Fitted(len(kept), classifier, promise, ordered)


def _likeliest(classifier: Classifier, texts: Sequence[str]) -> list[Top]:
    return _name(classifier.actions, classifier.probabilities(texts)) if texts else []


def _name(actions: Sequence[str], probabilities: Any) -> list[Top]:
    """The likeliest action of each row of an array (texts, actions), of two actions or more."""
    found = []
    for row in probabilities:
        ordered = row.argsort()
        top, second = row[ordered[-1]], row[ordered[-2]]
        found.append(Top(actions[ordered[-1]], float(top), float(top - second)))
    return found


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
