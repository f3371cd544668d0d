"""Krippendorff's α for nominal data and for numbers. PURE; `decisions.labelling.agreement` applies it to a queue's
labels, `decisions.judges` to a judge's scores beside people's.

Source: Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", sections C and D: any number of observers,
any metric, missing data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations


def count_coincidences(units: Iterable[Sequence[Hashable]]) -> Counter[tuple[Hashable, Hashable]]:
    """The coincidence matrix o. `units` holds each unit's values, one an observer, without the missing ones; a unit
    with fewer than two pairs nothing. Within unit u of m_u values every ordered pair of values of two observers counts
    1/(m_u − 1): o_ck = Σ_u (c-k pairs in u) / (m_u − 1)."""
    matrix: Counter[tuple[Hashable, Hashable]] = Counter()
    for values in units:
        if len(values) < 2:
            continue
        for pair in permutations(values, 2):
            matrix[pair] += 1 / (len(values) - 1)  # type: ignore[assignment]
    return matrix


def nominal_alpha(units: Iterable[Sequence[Hashable]]) -> float | None:
    """α = 1 − D_o/D_e = 1 − (n − 1) · Σ_{c≠k} o_ck / Σ_{c≠k} n_c·n_k, with n_c = Σ_k o_ck and n = Σ_c n_c.

    1 for perfect agreement, 0 for what chance would give, negative for less than that. None where α is not defined: no
    unit has two values, or all values are the same.
    """
    matrix = count_coincidences(units)
    totals: Counter[Hashable] = Counter()
    for (value, _), weight in matrix.items():
        totals[value] += weight
    n = sum(totals.values())
    observed = sum(weight for (one, other), weight in matrix.items() if one != other)
    expected = n * n - sum(total * total for total in totals.values())
    if len(totals) < 2:
        return None
    return 1 - (n - 1) * observed / expected


def interval_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """α of numbers, where values further apart disagree more: 1 − (n − 1) · Σ o_ck (c − k)² / Σ n_c·n_k (c − k)².

    Of the values 0 and 1 it equals `nominal_alpha`. None as there.
    """
    matrix: Counter[tuple[float, float]] = count_coincidences(units)  # type: ignore[assignment]
    totals: dict[float, float] = defaultdict(float)
    for (value, _), weight in matrix.items():
        totals[value] += weight
    if len(totals) < 2:
        return None
    n = sum(totals.values())
    observed = sum(weight * (one - other) ** 2 for (one, other), weight in matrix.items())
    squares = sum(weight * value * value for value, weight in totals.items())
    total = sum(weight * value for value, weight in totals.items())
    # Σ_c Σ_k n_c n_k (c − k)² = 2 n Σ n_c c² − 2 (Σ n_c c)²
    return 1 - (n - 1) * observed / (2 * n * squares - 2 * total**2)
