"""Who plays which part: disjoint, reproducible, and refused where the file is too small for what is asked."""

from __future__ import annotations

from collections import Counter

import pytest

from training.rehearsal.person import react
from training.rehearsal.plan import Plan, PlanError, check_plan, split_rows
from training.rehearsal.recipe import base_settings, ceiling_settings, prompt_tokens, round_settings
from training.rehearsal.source import Example, Source


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


def test_rounds_share_the_decisions() -> None:
    split = split_rows(source(), Plan(decisions=103, rounds=4), 0)
    assert split.round_ends(4) == [25, 51, 77, 103]
    assert len(split_rows(source(30_000), Plan(), 0).stream) == 10_000


def test_every_fault_of_a_plan_is_told() -> None:
    with pytest.raises(PlanError) as refused:
        check_plan(Plan(seed_share=0, rounds=0, seeds=21, noise=0.5, late=2, missing=1, epsilon=-1), source())
    assert [fault.split(":")[0] for fault in refused.value.faults] == [
        "seed-share", "rounds", "seeds", "noise", "late", "missing", "epsilon",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "told"),
    [(Plan(decisions=701), "leaves 700"), (Plan(decisions=100, rounds=11), "fewer than 10 each")],
)
def test_more_than_the_file_holds_is_refused(plan: Plan, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        check_plan(plan, source())


def test_the_person_is_late_silent_and_wrong_as_often_as_asked() -> None:
    plan = Plan(noise=0.1, late=0.2, missing=0.3)
    said = [react(plan, 1, f"row-{n}", right=True) for n in range(5000)]
    shares = {when: count / 5000 for when, count in Counter(reaction.when for reaction in said).items()}
    assert shares["never"] == pytest.approx(0.3, abs=0.03)
    assert shares["late"] == pytest.approx(0.7 * 0.2, abs=0.03)
    assert sum(reaction.verdict == "corrected" for reaction in said) / 5000 == pytest.approx(0.1, abs=0.02)
    assert all(react(Plan(), 1, f"row-{n}", right=n % 2 == 0).when == "at_once" for n in range(100))


def test_the_ceiling_is_trained_as_the_last_round_is() -> None:
    last, ceiling = round_settings("tiny", 10_500), ceiling_settings("tiny", 10_500)
    assert ceiling["optimiser"] == last["optimiser"] and ceiling["pretrain"]["calibration_share"] == 0
    passes = [round_settings("tiny", rows)["optimiser"]["epochs"] for rows in (1000, 3000, 5000)]
    assert passes == [12, 6, 3]
    assert [base_settings("tiny", rows)["optimiser"]["epochs"] for rows in (50, 500, 1800)] == [40, 12, 8]
    assert "lora" in round_settings("a/real-model", 100)
    assert "lora" not in ceiling_settings("a/real-model", 100)


def test_prompts_get_room_for_nearly_all_texts() -> None:
    short = [Example("row-1", "two words", "a")] * 100
    assert prompt_tokens(short) == 40
    assert prompt_tokens([Example("row-1", "word " * 60, "a")] * 100) == 96
    assert prompt_tokens([Example("row-1", "word " * 900, "a")] * 100) == 160
