"""`python -m tools.glossary` writes the glossary's entries into the list of docs/vocabulary.md."""

from __future__ import annotations

import re

from tools.instance import ROOT
from workspaces.glossary import ENTRIES

PAGE = ROOT / "docs" / "vocabulary.md"


def write_list() -> str:
    """A line for each term, sorted as in the module."""
    return "".join(f"- **{one.term}**: {one.means}\n" for one in ENTRIES)


def render(page: str) -> str:
    """The page with its list replaced."""
    return re.sub(r"(?:- \*\*.*\n)+", lambda _: write_list(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
