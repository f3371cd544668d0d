"""The tables of docs/security.md: each requirement of levels 1 and 2 once, with what shows it or why not."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from tests.docs.blocks import DOCS
from tests.docs.test_docs_complete import rows, section
from tests.docs.test_places import missing_place

TEXT = (DOCS / "security.md").read_text(encoding="utf-8")
IN_SECTION = (
    "1.1:0+2 1.2:5+4 1.3:2+9 1.4:0+3 1.5:1+1 2.1:1+2 2.2:2+1 2.3:1+3 2.4:0+1 3.2:2+0 3.3:1+3 3.4:2+4 3.5:3+2 "
    "3.7:0+2 4.1:1+2 4.2:0+1 4.3:0+2 4.4:1+3 5.1:0+1 5.2:2+1 5.3:2+0 5.4:0+3 6.1:1+2 6.2:8+4 6.3:2+2 6.4:2+2 "
    "6.5:0+5 6.6:0+3 6.8:0+4 7.1:0+3 7.2:4+0 7.3:0+2 7.4:2+3 7.5:0+2 7.6:0+2 8.1:1+1 8.2:2+1 8.3:1+0 8.4:0+1 "
    "9.1:3+0 9.2:1+3 10.1:0+2 10.2:0+2 10.3:0+4 10.4:5+6 10.5:0+5 10.6:0+2 10.7:0+3 11.1:0+2 11.2:0+3 11.3:2+1 "
    "11.4:1+3 11.5:0+1 11.6:0+1 12.1:1+2 12.2:2+0 12.3:0+4 13.1:0+1 13.2:0+5 13.3:0+2 13.4:1+4 14.1:0+2 14.2:1+3 "
    "14.3:1+2 15.1:1+2 15.2:1+2 15.3:1+6 16.1:0+1 16.2:0+5 16.3:0+4 16.4:0+3 16.5:0+3 17.1:0+1 17.2:0+4 17.3:0+2"
)
"""Requirements of level 1 + level 2 in each section of ASVS 5.0.0. They are its first ones, level 1 before level 2."""
COUNTS = [(name, int(first), int(second)) for name, first, second in re.findall(r"(\S+):(\d+)\+(\d+)", IN_SECTION)]
REQUIREMENTS = [f"{name}.{number + 1}" for name, first, second in COUNTS for number in range(first + second)]
LEVEL_1 = {f"{name}.{number + 1}" for name, first, _ in COUNTS for number in range(first)}
PLACE_OF = {number: place for place, number in enumerate(REQUIREMENTS)}


def numbers_of(cell: str) -> list[str]:
    """`1.2.6–1.2.8, 1.3.8` as the requirements it names. Raises KeyError for a number that the standard has not."""
    found = []
    for part in cell.split(", "):
        first, _, last = part.partition("–")
        found += REQUIREMENTS[PLACE_OF[first] : PLACE_OF[last or first] + 1]
    return found


def table(heading: str) -> list[list[str]]:
    """Cells of the rows below a heading, without the table's head."""
    return rows(section(TEXT, f"### {heading}"))[1:]


TABLES = (
    [(numbers_of(cell), state, why) for cell, state, _, why in table("Partly or not met")],
    [(numbers_of(cell), "–", why) for cell, why in table("Does not apply (–)")],
    [(numbers_of(cell), "met", shown) for cell, shown in table("Met")],
)
ENTRIES = [entry for one in TABLES for entry in one]


def test_every_requirement_is_in_one_table_once_and_in_order() -> None:
    assert len(REQUIREMENTS) == 253 and len(LEVEL_1) == 70 and set(REQUIREMENTS) > LEVEL_1
    assert sorted((number for numbers, _, _ in ENTRIES for number in numbers), key=PLACE_OF.__getitem__) == REQUIREMENTS
    for one in TABLES:
        places = [[PLACE_OF[number] for number in numbers] for numbers, _, _ in one]
        assert all(row and row == sorted(row) for row in places)
        assert all(before[0] < after[0] for before, after in pairwise(places))
    assert f"the {len(REQUIREMENTS)} requirements" in TEXT


def test_the_sums_are_those_of_the_rows() -> None:
    counts = Counter((state, number in LEVEL_1) for numbers, state, _ in ENTRIES for number in numbers)
    for state in ("met", "partly", "not met", "–"):
        assert f"\n| {state} | {counts[state, True]} | {counts[state, False]} |\n" in TEXT


def test_what_is_met_names_what_shows_it_and_that_is_there() -> None:
    for numbers, state, shown in ENTRIES:
        places = re.findall(r"`(tests/[^`]+)`", shown)
        assert [why for place in places if (why := missing_place(place) or ("" if "::test_" in place else place))] == []
        if state == "met":
            assert places or "](" in shown or "CI: " in shown, f"{numbers} name nothing"


@pytest.mark.parametrize("state", ["partly", "not met", "–"])
def test_what_is_not_met_says_why(state: str) -> None:
    found = [shown for _, found, shown in ENTRIES if found == state]
    assert found and all(len(re.sub(r"`[^`]*`", "", shown).strip(" .,:")) > 5 for shown in found)
    if state == "not met":
        assert all("Needed" in shown for shown in found)


@pytest.mark.parametrize("cell", ["1.2.10", "1.3", "9.9.1–9.9.2"])
def test_a_number_that_the_standard_has_not_is_noticed(cell: str) -> None:
    with pytest.raises(KeyError):
        numbers_of(cell)
