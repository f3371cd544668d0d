"""Who plays which part: disjoint, reproducible, and refused where the file is too small for what is asked."""

from __future__ import annotations

from collections import Counter

import pytest

from training.loops.rehearsal.estimate import Rates, estimate_seconds
from training.loops.rehearsal.plan import Plan, PlanError, check_plan, split_rows
from training.loops.rehearsal.source import Source
from training.rows.labelled_texts import Example


def source(rows: int = 1000, labels: int = 4) -> Source:
    examples = tuple(Example(f"row-{n}", f"note {n}", f"label {n % labels}") for n in range(1, rows + 1))
    return Source("n.csv", "0", examples, tuple(sorted({e.label for e in examples})), 0, 0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_disjoint_and_every_label_is_taught(seed: int) -> None:
    split = split_rows(source(labels=40), Plan(), seed)
    parts = [*split.seed_rows, *split.stream, *split.gate, *split.heldout]
    assert max(Counter(row.id for row in parts).values()) == 1
    assert len({row.label for row in split.seed_rows}) == 40
    assert (len(split.seed_rows), len(split.heldout), len(split.gate), len(split.stream)) == (50, 150, 100, 700)
    assert split == split_rows(source(labels=40), Plan(), seed) != split_rows(source(labels=40), Plan(), seed + 1)


def test_each_round_is_larger_than_the_one_before() -> None:
    split = split_rows(source(), Plan(decisions=153, rounds=4), 0)
    assert split.round_ends(4) == [10, 31, 71, 153]
    assert split.round_ends(1) == [153]
    assert len(split_rows(source(30_000), Plan(), 0).stream) == 10_000


def test_every_fault_of_a_plan_is_told() -> None:
    with pytest.raises(PlanError) as refused:
        check_plan(Plan(seed_share=0, rounds=0, seeds=21, noise=0.5, late=2, missing=1, epsilon=-1), source())
    assert [fault.split(":")[0] for fault in refused.value.faults] == [
        "seed-share", "rounds", "seeds", "noise", "late", "missing", "epsilon",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (Plan(decisions=701), "has 700"),
        (Plan(decisions=100, rounds=11), "leave 3 for the first"),
        (Plan(decisions=50, labels=51), "labels: 51"),
    ],
)
def test_more_than_the_file_holds_is_refused(plan: Plan, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        check_plan(plan, source())


def test_a_plan_without_a_base_is_what_it_was_before_there_was_a_choice() -> None:
    plain = Plan(rounds=2).as_plain()
    assert not {"base", "lora", "labels"} & set(plain) and Plan.from_plain(plain) == Plan(rounds=2)
    chosen = Plan(base="some/model", lora=True, labels=5)
    assert Plan.from_plain(chosen.as_plain()) == chosen


def test_the_estimate_adds_up_all_runs_and_decisions() -> None:
    """1,000 rows: 50 seed labels, 700 decisions, 100 of the gate, 150 held out, which each run scores twice. Of the
    decisions 0.4 are judged, and as many of the others are learnt from."""
    plan = Plan(base="some/model", rounds=2, seeds=3, missing=0.6)
    trained = 3 * 0.8 * 50 + (50 + 0.8 * 78) + 3 * (50 + 0.8 * 700) + 3 * 750
    scored = 4 * 2 * 150 + (50 + 0.8 * 78) / 2 + (50 + 0.8 * 700) / 2 + 700 + 100
    found = estimate_seconds(plan, source(), Rates(trained=2, scored=10, loading=5))
    assert found == pytest.approx(3 * (trained / 2 + scored / 10 + 5 * 2 * 5))
