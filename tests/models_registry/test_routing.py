"""Assignment: uniform, independent across experiments, sticky, monotone in the share, equal in every client."""

import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.routing.lanes import assign, hash_unit, new_salt

VECTORS = json.loads((Path(__file__).parent / "routing_vectors.json").read_text(encoding="utf-8"))
SALT = "00112233445566778899aabbccddeeff"
NAMES = st.text(alphabet=st.characters(exclude_characters="|", exclude_categories=["Cs"]), max_size=20)


@cache
def buckets(experiment: str, count: int, salt: str = SALT) -> np.ndarray:
    return np.array([hash_unit(salt, experiment, f"user-{i}") for i in range(count)], dtype=np.float64) / 2.0**64


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['experiment']}/{vector['unit']}")
def test_golden_vectors(vector):
    got = assign(vector["salt"], vector["experiment"], vector["unit"], vector["treatment_share"])
    assert str(hash_unit(vector["salt"], vector["experiment"], vector["unit"])) == vector["hash"]
    assert got.arm == vector["arm"]
    assert got.probability == vector["probability"]
    assert got.bucket == vector["bucket"]


@pytest.mark.slow
def test_buckets_are_uniform_on_a_million_units():
    from scipy.stats import chisquare  # a second of imports

    counts = np.bincount((buckets("filing", 1_000_000) * 1000).astype(int), minlength=1000)
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("salt", "experiment"), [(SALT, "other"), ("ff" * 16, "filing")])
@pytest.mark.slow
def test_experiments_split_units_independently(salt, experiment):
    from scipy.stats import chi2_contingency

    first = (buckets("filing", 200_000) * 10).astype(int)
    second = (buckets(experiment, 200_000, salt) * 10).astype(int)
    table = np.histogram2d(first, second, bins=10)[0]
    assert chi2_contingency(table).pvalue > 1e-3


def test_a_ramp_only_adds_units():
    ramp = [0.0, 0.05, 0.25, 0.5, 1.0]
    treated = [{i for i in range(5000) if assign(SALT, "x", str(i), p).arm == "treatment"} for p in ramp]
    for smaller, larger in itertools.pairwise(treated):
        assert smaller < larger
    assert treated[0] == set() and len(treated[-1]) == 5000
    assert len(treated[3]) == pytest.approx(2500, abs=150)


@given(experiment=NAMES, unit=st.text(alphabet=st.characters(exclude_categories=["Cs"])), share=st.floats(0, 1))
def test_probability_is_that_of_the_arm_the_unit_got(experiment, unit, share):
    got = assign(SALT, experiment, unit, share)
    assert got == assign(SALT, experiment, unit, share)
    assert got.probability == (share if got.arm == "treatment" else 1 - share)
    assert 0.0 < got.probability <= 1.0
    assert 0.0 <= got.bucket < 1.0


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(ValueError, match="treatment_share"):
        assign(SALT, "x", "u", share)


def test_names_that_could_be_cut_in_two_ways_are_refused():
    with pytest.raises(ValueError, match="may contain"):
        assign(SALT, "a|b", "c", 0.5)


def test_salts_are_128_bit_and_new():
    salts = {new_salt() for _ in range(100)}
    assert len(salts) == 100
    assert all(len(bytes.fromhex(salt)) == 16 for salt in salts)
