"""The fenced blocks of Python and shell in a text: which of them run, and which Python ones parse.

Counts, not a reward: what a text without blocks is worth is for the reward's component to say.
"""

from __future__ import annotations

import ast
import functools
import threading
import warnings
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sandbox.limits import Limits
from sandbox.run import run_code
from sandbox.unchecked import DEFAULT_LIMITS, Language, fit

LANGUAGES: dict[str, Language] = {
    "python": "python", "py": "python", "python3": "python", "py3": "python",
    "shell": "shell", "sh": "shell", "bash": "shell", "zsh": "shell",
}  # fmt: skip
MOST_BLOCKS = 20
MOST_SOURCE = 100_000  # characters that are parsed in this process
_filters = threading.Lock()  # the warnings module's are one list for all threads


@dataclass(frozen=True, slots=True)
class Block:
    """line: of its first line of code in the text, from 1."""

    language: Language
    code: str
    line: int


@dataclass(frozen=True, slots=True)
class Failure:
    line: int
    language: Language
    reason: str


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """blocks: how many were tried; good: how many of them ran, or parsed; left_out: how many were not tried."""

    blocks: int
    good: int
    left_out: int
    failures: tuple[Failure, ...]

    @property
    def share(self) -> float | None:
        """good / blocks, in [0, 1]; None without blocks."""
        return self.good / self.blocks if self.blocks else None


def find_blocks(text: str) -> list[Block]:
    """The fenced blocks (CommonMark) whose first word says Python or shell, in their order, in lists and quotes too."""
    found = []
    for token in _fences(text):
        word = (token.info.split() or [""])[0].lower().strip("{.}")
        if word in LANGUAGES and token.map is not None:
            found.append(Block(LANGUAGES[word], token.content, token.map[0] + 2))
    return found


def without_blocks(text: str) -> str:
    """The lines outside every fenced block, of whatever language."""
    inside = {line for token in _fences(text) for line in range(*(token.map or (0, 0)))}
    return "\n".join(line for number, line in enumerate(text.split("\n")) if number not in inside)


def _fences(text: str) -> list[Token]:
    if "```" not in text and "~~~" not in text:
        return []
    return [token for token in _parser().parse(text) if token.type == "fence"]


def run_blocks(text: str, *, limits: Limits = DEFAULT_LIMITS, most: int = MOST_BLOCKS) -> BlockCounts:
    """Runs each block by itself, in a box of its own: none sees what another defined or wrote. At most `most` of them.

    `limits` are those of one block. A block runs when it ends by itself within them, with exit code 0; of a shell
    block every command has to succeed. Raises SandboxMissing or SandboxError when the sandbox fails.
    """
    blocks = find_blocks(text)
    reasons = [_run(block, limits) for block in blocks[:most]]
    return _count(blocks[:most], reasons, left_out=max(0, len(blocks) - most))


def parse_blocks(text: str) -> BlockCounts:
    """Which Python blocks parse as a module, by this process's Python; nothing is run and no sandbox is needed."""
    blocks = [block for block in find_blocks(text) if block.language == "python"]
    return _count(blocks, [find_syntax_error(block.code) for block in blocks], left_out=0)


def find_syntax_error(source: str) -> str | None:
    """Why Python source does not parse, as a short sentence; None when it does."""
    if len(source) > MOST_SOURCE:
        return f"is longer than {MOST_SOURCE} characters"
    try:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" is a matter of style
            ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL; too deep for the parser
        return f"does not parse: {str(error) or 'it is nested too deeply'}"
    return None


def _run(block: Block, limits: Limits) -> str | None:
    if not fit({"main": block.code.encode()}, limits):
        return f"is longer than {limits.disk_bytes} bytes"
    return run_code(block.code, block.language, limits=limits).failure


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").disable("inline")


def _count(blocks: list[Block], reasons: list[str | None], *, left_out: int) -> BlockCounts:
    failures = tuple(
        Failure(block.line, block.language, reason) for block, reason in zip(blocks, reasons, strict=True) if reason
    )
    return BlockCounts(len(blocks), len(blocks) - len(failures), left_out, failures)
