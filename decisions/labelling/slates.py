"""Suggests which of the items that a decision offered belongs first, from people's labels. PURE.

Items differ from decision to decision, so what is learnt is what an item is like: its words and short values, where its
numbers and dates stand among those of the other items, and how many of its words the rest of the state has. A linear
score of these gives P(item) by a softmax over the items on offer (McFadden 1974, "Conditional logit analysis of
qualitative choice behavior"), fitted on the differences between the right item and the others. What it promises comes
from decisions that it had not seen. scikit-learn is loaded when something is fitted.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.agents.items import find_members, keep_item
from decisions.labelling.classifier import FEWEST_LABELS, FOLDS, TooFewLabels
from decisions.labelling.promises import PRECISION, Promise, Top, make_promise
from decisions.labelling.wording import WORD, text_of

MOST_COMPARED = 20
"""Items of one decision with which the right one is compared, drawn at random where there are more."""
SEEN_IN = 2
"""Decisions that have a feature; rarer ones say nothing of others."""
LONGEST_VALUE = 40
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
Features = dict[str, float]


@dataclass(frozen=True, slots=True)
class Slate:
    """The items that a decision offered, each once, and what they are like."""

    items: tuple[str, ...]
    features: tuple[Features, ...]


@dataclass(frozen=True, slots=True)
class FittedSlates:
    """labels: how many it learnt from. unseen: for each slate that it was given, the likeliest item by a model that had
    not seen its label."""

    labels: int
    promise: Promise
    unseen: tuple[Top, ...]
    _model: _Model

    def predict(self, slates: Sequence[Slate]) -> list[Top]:
        """The likeliest item of each slate."""
        return [self._model.choose(slate) for slate in slates]


@dataclass(frozen=True, slots=True)
class _Model:
    vectorizer: Any
    regression: Any

    def choose(self, slate: Slate) -> Top:
        import numpy as np

        scores = self.regression.decision_function(self.vectorizer.transform(slate.features))
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        ordered = shares.argsort()
        first, second = float(shares[ordered[-1]]), float(shares[ordered[-2]])
        return Top(slate.items[ordered[-1]], first, first - second)


def make_slate(state: Mapping[str, Any], items: Sequence[str]) -> Slate:
    """items: two or more, of which the state may tell more (`decisions.agents.items`)."""
    offered = tuple(dict.fromkeys(items))
    members = find_members(state, set(offered))
    context = set(WORD.findall(text_of(keep_item(state, "", set(offered))).lower()))
    found = [dict(_describe(members.get(item), item, context)) for item in offered]
    for path, values in _ordered(members, offered).items():
        ranks = {value: rank for rank, value in enumerate(sorted({value for _, value in values}))}
        if len(ranks) > 1:
            for place, value in values:
                found[place] |= _stand(path, ranks[value], len(ranks) - 1)
    return Slate(offered, tuple(found))


def _stand(path: str, rank: int, last: int) -> Features:
    edge: Features = {f"{path} least": 1.0} if rank == 0 else {f"{path} most": 1.0} if rank == last else {}
    return edge | {f"{path} rank": rank / last}


def _describe(member: Any, item: str, context: set[str]) -> Iterator[tuple[str, float]]:
    """Names and values of features, but those that need the other items."""
    yield f"item={item}", 1.0
    said = WORD.findall(text_of(member).lower())
    for path, value in _walk(member):
        if value is None or isinstance(value, bool) or (isinstance(value, str) and len(value) <= LONGEST_VALUE):
            yield f"{path}={value}", 1.0
    for word in set(said):
        yield f"word {word}", 1.0
    yield "shared", sum(word in context for word in said) / len(said) if said else 0.0


def _walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, f"{path}[]")
    else:
        yield path, value


def _ordered(members: Mapping[str, Any], items: Sequence[str]) -> dict[str, list[tuple[int, Any]]]:
    """Numbers and dates that every item has, by their path: the item's place and the value."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for place, item in enumerate(items):
        for path, value in _walk(members.get(item)):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[f"{path} number"][place] = value
            elif isinstance(value, str) and _DATE.match(value):
                found[f"{path} date"][place] = value
    return {path: list(values.items()) for path, values in found.items() if len(values) == len(items)}


def fit_slates(
    slates: Sequence[Slate], right: Sequence[str], *, precision: float = PRECISION, seed: int = 0
) -> FittedSlates:
    """slates, right: of labelled decisions, and the item of each that belongs first. Raises TooFewLabels."""
    if len(slates) < FEWEST_LABELS:
        raise TooFewLabels(
            f"{len(slates)} labels that name one of two items or more; at least {FEWEST_LABELS} are needed"
        )
    order = list(range(len(slates)))
    random.Random(seed).shuffle(order)  # noqa: S311 - folds
    unseen: dict[int, Top] = {}
    for fold in range(FOLDS):
        held_out = order[fold::FOLDS]
        others = sorted(set(order) - set(held_out))
        model = _fit([slates[place] for place in others], [right[place] for place in others], seed)
        unseen |= {place: model.choose(slates[place]) for place in held_out}
    ordered = tuple(unseen[place] for place in range(len(slates)))
    promise = make_promise(
        [top.probability for top in ordered],
        [int(top.answer == item) for top, item in zip(ordered, right, strict=True)],
        baseline=sum(1 / len(slate.items) for slate in slates) / len(slates),
        precision=precision,
    )
    return FittedSlates(len(slates), promise, ordered, _fit(slates, right, seed))


def _fit(slates: Sequence[Slate], right: Sequence[str], seed: int) -> _Model:
    from scipy.sparse import vstack
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    seen = Counter(name for slate in slates for name in {name for one in slate.features for name in one})
    vectorizer = DictVectorizer().fit([{name: 1.0 for name, count in seen.items() if count >= SEEN_IN}])
    rng = random.Random(seed)  # noqa: S311 - which items are compared
    differences = []
    for slate, answer in zip(slates, right, strict=True):
        rows = vectorizer.transform(slate.features)
        first = slate.items.index(answer)
        others = [place for place in range(len(slate.items)) if place != first]
        for place in rng.sample(others, min(MOST_COMPARED, len(others))):
            differences.append(rows[first] - rows[place])
    # Each difference both ways, so that neither side of the regression is empty.
    both = vstack([*differences, *(-one for one in differences)])
    sides = [1] * len(differences) + [0] * len(differences)
    regression = LogisticRegression(fit_intercept=False, max_iter=1000, random_state=seed).fit(both, sides)
    return _Model(vectorizer, regression)
