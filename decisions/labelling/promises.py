"""What a classifier's answers on labels that it had not seen promise of its suggestions. PURE.

Confidence is calibrated by isotonic regression (Zadrozny and Elkan 2002, "Transforming classifier scores into accurate
multiclass probability estimates"). The threshold is the lowest at which the lower end of Wilson's 95 % interval of the
precision reaches what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

PRECISION = 0.95
Z = 1.6448536269514722
"""One-sided 95 %."""


class Top(NamedTuple):
    """The likeliest answer, its probability as the model has it, and that less the probability of the next one."""

    answer: str
    probability: float
    margin: float


@dataclass(frozen=True, slots=True)
class Promise:
    """threshold: calibrated confidence from which it suggests; above 1 where it never may. precision, coverage: of
    unseen labels above the threshold, and their share of all. accuracy: of its likeliest answers to all unseen labels.
    baseline: that of a guess without reading the decision."""

    threshold: float
    precision: float | None
    coverage: float
    accuracy: float
    baseline: float
    _calibration: Any

    def calibrate(self, tops: Sequence[float]) -> list[float]:
        """Raw probabilities of the likeliest answers → the probability that each is right, in [0, 1]."""
        found = self._calibration.predict(list(tops)) if len(tops) else []
        return [min(1.0, max(0.0, float(one))) for one in found]


def make_promise(
    tops: Sequence[float], hits: Sequence[int], *, baseline: float, precision: float = PRECISION
) -> Promise:
    """tops, hits: of each unseen label the raw probability of the likeliest answer, and whether it was right; one or
    more. precision: of suggestions, in (0, 1)."""
    from sklearn.isotonic import IsotonicRegression

    calibration = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(list(tops), list(hits))
    threshold, reached, coverage = _choose(calibration.predict(list(tops)).tolist(), hits, precision)
    return Promise(threshold, reached, coverage, sum(hits) / len(hits), baseline, calibration)


def wilson_low(hits: int, count: int) -> float:
    """The lower end of Wilson's one-sided 95 % interval of hits / count, count ≥ 1."""
    share = hits / count
    centre = share + Z * Z / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return (centre - spread) / (1 + Z * Z / count)


def _choose(confidence: Sequence[float], hits: Sequence[int], precision: float) -> tuple[float, float | None, float]:
    """The lowest threshold that keeps the precision, and the precision and coverage that it has; ties stay together."""
    best: tuple[float, float | None, float] = (2.0, None, 0.0)
    right = count = 0
    ordered = sorted(zip(confidence, hits, strict=True), reverse=True)
    for place, (sure, hit) in enumerate(ordered):
        right, count = right + hit, count + 1
        last_of_its_kind = place + 1 == len(ordered) or ordered[place + 1][0] < sure
        if last_of_its_kind and wilson_low(right, count) >= precision:
            best = (sure, right / count, count / len(ordered))
    return best
