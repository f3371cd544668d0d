"""How much of the code one decision's way through the loop leads to: the counts that docs/walkthrough.md keeps."""

from __future__ import annotations

import re
from itertools import pairwise

from tests.docs.blocks import DOCS
from tests.docs.test_places import FLOORS

MOST_FILES = 30
MOST_CHANGES = 10
FILE = re.compile(rf"`((?:{'|'.join(FLOORS)})/[\w/-]+\.py)\b")
STEP = re.compile(r"^## \d+\. .+$", re.MULTILINE)
PAGE = (DOCS / "walkthrough.md").read_text(encoding="utf-8")


def test_the_loop_is_told_in_few_files() -> None:
    files = set(FILE.findall(PAGE))
    assert len(files) <= MOST_FILES, sorted(files)


def test_the_loop_seldom_changes_floor() -> None:
    files = FILE.findall(PAGE)
    changes = [
        f"{one} → {following}" for one, following in pairwise(files) if one.split("/")[0] != following.split("/")[0]
    ]
    assert len(changes) <= MOST_CHANGES, changes


def test_every_step_names_its_entry_point() -> None:
    steps = STEP.split(PAGE)[1:]
    assert len(steps) == 11
    assert all(re.search(r"`[\w/-]+\.py::\w+`", step) for step in steps)
