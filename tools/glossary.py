"""`python -m tools.glossary` writes the glossary's entries into the table of docs/vocabulary.md."""

from __future__ import annotations

import re

from tools.instance import ROOT
from workspaces.glossary import ENTRIES

PAGE = ROOT / "docs" / "vocabulary.md"
HEAD = "| word | met as | means |\n|---|---|---|\n"


def write_table() -> str:
    """The rows, sorted as in the module."""
    rows = (f"| {one.term} | {', '.join(f'`{place}`' for place in one.met)} | {one.means} |\n" for one in ENTRIES)
    return HEAD + "".join(rows)


def render(page: str) -> str:
    """The page with its first table replaced."""
    return re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: write_table(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
