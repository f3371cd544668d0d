"""The documentation's pages as data: fenced blocks with their marks, and words in backticks.

`python -m tests.docs.blocks` counts the blocks by language, and lists those that are not run, with their reasons.

A comment alone on the line above a fence is the block's mark:

    <!-- not run: reason -->     the block is not run; the reason is one of test_code_blocks.py's list
    <!-- the answer -->          JSON of the shape that the `sh` block before it printed
    <!-- checked by NAME -->     JSON that a check of test_code_blocks.py takes

Own code on markdown-it, and no library such as Sybil: those make one test of each block, with the fixtures (and the
transaction) of one test, while a page here is one story over one database, in Python and in the shell.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# CHANGELOG.md tells of the past: what it names may be gone.
PAGES = tuple(sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]))
MARK = re.compile(r"^<!-- (.+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code; `line` is its fence's, counted from 1, and `language` is empty where none is said."""

    page: Path
    line: int
    language: str
    mark: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def not_run(self) -> str | None:
        """The reason why it is not run, if it is marked so."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None


PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
BLOCK_PARSER = MarkdownIt("commonmark", {"html": True}).enable("table").disable("inline")  # in a fifth of the time


@cache
def tokens(page: Path) -> list[Token]:
    return PARSER.parse(page.read_text(encoding="utf-8"))


@cache
def blocks(page: Path) -> list[Block]:
    """Every block of code of a page, in its order; one that is only indented has no language."""
    text = page.read_text(encoding="utf-8")
    lines, found = text.splitlines(), []
    for token in BLOCK_PARSER.parse(text):
        if token.type not in {"fence", "code_block"} or token.map is None:
            continue
        start = token.map[0]
        mark = MARK.match(lines[start - 1].strip()) if start else None
        found.append(Block(page, start + 1, token.info.strip(), mark[1] if mark else "", token.content))
    return found


def code_words(page: Path) -> list[str]:
    """What stands in backticks in the page's text and tables."""
    return [
        child.content.replace(r"\|", "|")
        for token in tokens(page)
        for child in token.children or ()
        if child.type == "code_inline"
    ]


def report() -> str:
    """What there is, and what of it is not run."""
    found = [block for page in PAGES for block in blocks(page)]
    count = Counter(block.language for block in found)
    marked = [block for block in found if block.not_run is not None]
    lines = [", ".join(f"{number} {language}" for language, number in count.most_common())]
    lines += [f"{len(marked)} not run:", *(f"  {block.place}  {block.not_run}" for block in marked)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(report())
