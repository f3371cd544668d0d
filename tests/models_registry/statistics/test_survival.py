"""The Kaplan–Meier estimate: numbers by hand, scipy's own for any sample, and what holds for every curve."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.statistics.survival import kaplan_meier


def test_six_that_were_watched_by_hand() -> None:
    """Of 6, one after 1, one of two after 3 (the other was lost there), one after 6; two were watched until 4 and 9.

    At 1: 6 at risk, S = 5/6. At 3: 5 at risk, S = 5/6 · 4/5 = 2/3. At 6: 2 at risk, S = 2/3 · 1/2 = 1/3.
    Greenwood's sum at 3: 1/(6·5) + 1/(5·4) = 1/12.
    """
    curve = kaplan_meier([1, 3, 3, 4, 6, 9], [True, True, False, False, True, False])
    assert curve.times.tolist() == [1, 3, 6] and curve.at_risk.tolist() == [6, 5, 2]
    assert curve.survival == pytest.approx([5 / 6, 2 / 3, 1 / 3])
    reach = math.exp(1.959964 * math.sqrt(1 / 12) / abs(math.log(2 / 3)))
    assert (curve.low[1], curve.high[1]) == pytest.approx(((2 / 3) ** reach, (2 / 3) ** (1 / reach)), rel=1e-6)
    assert (curve.n, curve.events, curve.median, curve.quantile(0.2)) == (6, 3, 6.0, 3.0)
    by_three = curve.happened_by(3)
    assert by_three is not None and by_three.mean == pytest.approx(1 / 3)
    assert by_three.low < by_three.mean < by_three.high
    none_yet = curve.happened_by(0.5)
    assert none_yet is not None and (none_yet.mean, none_yet.low) == (0, 0)
    assert none_yet.high == pytest.approx(1.96**2 / (6 + 1.96**2), abs=1e-4) and curve.happened_by(9.1) is None


def test_what_happened_to_all_is_known_for_ever_and_to_none_never() -> None:
    over = kaplan_meier([2, 5], [True, True])
    share = over.happened_by(1e9)
    assert share is not None and share.mean == 1 and over.survival[-1] == over.low[-1] == 0
    never = kaplan_meier([2, 5], [False, False])
    assert never.times.size == 0 and never.median is None and never.happened_by(6) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=60))
def test_it_falls_and_is_scipys(rows: list[tuple[int, bool]]) -> None:
    from scipy.stats import CensoredData, ecdf  # a second of imports

    durations, happened = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    curve = kaplan_meier(durations, happened)
    assert (np.diff(curve.survival) <= 1e-12).all() and (np.diff(curve.times) > 0).all()
    assert (curve.low <= curve.survival + 1e-12).all() and (curve.survival <= curve.high + 1e-12).all()
    assert ((curve.low >= 0) & (curve.high <= 1)).all()
    shares = [share.mean for time in range(31) if (share := curve.happened_by(time)) is not None]
    assert shares == sorted(shares)
    if happened.any():
        other = ecdf(CensoredData(uncensored=durations[happened], right=durations[~happened]))
        assert curve.survival == pytest.approx(other.sf.evaluate(curve.times))


@pytest.mark.parametrize(("durations", "happened"), [([], []), ([-1], [True]), ([math.nan], [True]), ([1, 2], [True])])
def test_nonsense_is_refused(durations: list[float], happened: list[bool]) -> None:
    with pytest.raises(ValueError, match="durations"):
        kaplan_meier(durations, happened)
