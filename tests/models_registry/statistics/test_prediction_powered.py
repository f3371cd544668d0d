"""Corrected means: values of the paper's own package, coverage, and never wider than labels alone."""

import math

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from models_registry.statistics.prediction_powered import correct_mean

LABELS = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1]
SCORES = [0.9, 0.2, 0.7, 0.4, 0.3, 0.6, 0.8, 0.1, 0.9, 0.5]
OTHERS = [0.2, 0.9, 0.5, 0.7, 0.1, 0.3, 0.6, 0.8, 0.4, 0.2, 0.9, 0.6]


@pytest.mark.parametrize(("tuning", "mean", "low"), [(1.0, 0.57666667, 0.31233245), (0.5, 0.58833333, 0.32722914)])
def test_the_mean_is_that_of_the_papers_package(tuning, mean, low):
    """ppi-python 0.2.3, ppi_mean_ci(alpha=0.05, lam=…), which divides by n and takes the normal quantile."""
    found = correct_mean(LABELS, SCORES, OTHERS, tuning=tuning).corrected
    assert found.mean == pytest.approx(mean, abs=1e-8)
    widened = (mean - low) * math.sqrt(10 / 9) * stdtrit(9, 0.975) / ndtri(0.975)
    assert found.mean - found.low == pytest.approx(widened, abs=1e-7)


def test_rows_as_clusters_have_the_tuning_of_the_paper():
    found = correct_mean(LABELS, SCORES, OTHERS)
    covariance = np.cov(LABELS, SCORES, ddof=0)[0, 1]
    assert found.tuning == pytest.approx(covariance / (np.var(SCORES) + 10 / 12 * np.var(OTHERS)))
    assert correct_mean(LABELS, SCORES, OTHERS, tuning=0.0).corrected == found.labels_only


def test_scores_on_another_scale_and_the_other_way_round_are_as_good():
    found = correct_mean(LABELS, SCORES, OTHERS).corrected
    turned = correct_mean(LABELS, [5 - 4 * one for one in SCORES], [5 - 4 * one for one in OTHERS]).corrected
    assert (turned.mean, turned.low) == pytest.approx((found.mean, found.low))


def test_it_covers_where_units_have_many_rows_and_a_biased_judge_does_not():
    """300 draws of 2,000 rows of 200 units; the units of a tenth are labelled."""
    rng = np.random.default_rng(1)
    covered = naive = judged = 0
    for _ in range(300):
        units = np.repeat(np.arange(200), 10)
        right = (rng.random(2_000) < rng.beta(2, 2, 200)[units]).astype(float)
        score = np.where(rng.random(2_000) < 0.25, 1.0, right)
        mine = units < 20
        given = (right[mine], score[mine], score[~mine])
        found = correct_mean(*given, clusters=units[mine], unlabelled_clusters=units[~mine])
        assert found.corrected.high - found.corrected.low <= found.labels_only.high - found.labels_only.low
        covered += found.corrected.low <= 0.5 <= found.corrected.high
        judged += found.judged.low <= 0.5 <= found.judged.high
        rows = correct_mean(*given).corrected
        naive += rows.low <= 0.5 <= rows.high
    assert covered / 300 >= 0.92
    assert naive / 300 < 0.85
    assert judged == 0


def test_a_judge_that_says_one_thing_leaves_the_labels_alone():
    found = correct_mean(LABELS, [0.5] * 10, [0.5] * 5)
    assert (found.tuning, found.corrected) == (0.0, found.labels_only)


def test_one_labelled_unit_knows_nothing_of_spread():
    found = correct_mean([1, 0], [1, 1], [0, 1, 1], clusters=["a", "a"], unlabelled_clusters=["a", "b", "b"])
    assert (found.corrected.low, found.corrected.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("labels", "scores", "others", "clusters"),
    [
        ([1, 0], [1], [1], None),
        ([], [], [1], None),
        ([1], [1], [], None),
        ([1, math.nan], [1, 0], [1], None),
        ([1, 0], [1, 0], [1], ["a", "b"]),
    ],
)
def test_what_is_no_sample_is_refused(labels, scores, others, clusters):
    with pytest.raises(ValueError):
        correct_mean(labels, scores, others, clusters=clusters)
