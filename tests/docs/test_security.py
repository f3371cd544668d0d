"""The table of docs/security.md: every requirement of levels 1 and 2 once and in order, and each with what shows it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from tests.docs.blocks import DOCS
from tests.docs.test_places import missing_place

TEXT = (DOCS / "security.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+)\.(\d+)\.(\d+) \| ([12]) \| ([^|]+) \| (met|partly|not met|–) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [(tuple(map(int, found[:3])), *found[3:]) for found in ROW.findall(TEXT)]
IN_CHAPTER = {1: 27, 2: 11, 3: 19, 4: 10, 5: 9, 6: 35, 7: 18, 8: 7, 9: 7, 10: 29, 11: 14, 12: 9, 13: 13, 14: 9, 15: 13}
IN_CHAPTER |= {16: 16, 17: 7}
"""Requirements of levels 1 and 2 in ASVS 5.0.0; level 1 has 70 of them, level 2 has 183."""


def test_every_requirement_is_there_once_and_in_order() -> None:
    numbers = [row[0] for row in ROWS]
    assert all(before < after for before, after in pairwise(numbers))
    assert Counter(number[0] for number in numbers) == IN_CHAPTER
    assert Counter(row[1] for row in ROWS) == {"1": 70, "2": 183}
    assert len(re.findall(r"^\| \d+\.", TEXT, re.MULTILINE)) == len(ROWS) == 253
    assert f"its {len(ROWS)} requirements" in TEXT


def test_the_sums_are_those_of_the_rows() -> None:
    counts = Counter((row[3], row[1]) for row in ROWS)
    for state in ("met", "partly", "not met", "–"):
        assert f"\n| {state} | {counts[state, '1']} | {counts[state, '2']} |\n" in TEXT


def test_what_is_met_names_what_shows_it_and_that_is_there() -> None:
    for number, _, asks, state, shown in ROWS:
        places = re.findall(r"`(tests/[^`]+)`", shown)
        assert [why for place in places if (why := missing_place(place) or ("" if "::test_" in place else place))] == []
        if state == "met":
            assert places or "](" in shown or "CI: " in shown, f"{number} names nothing"
        assert len(asks.split()) <= 12, number


@pytest.mark.parametrize("state", ["partly", "not met", "–"])
def test_what_is_not_met_says_why(state: str) -> None:
    found = [shown for _, _, _, found, shown in ROWS if found == state]
    assert found and all(len(re.sub(r"`[^`]*`", "", shown).strip(" .,:")) > 5 for shown in found)
    if state == "not met":
        assert all("Needed" in shown or "TLS" in shown for shown in found)
