"""The short calls that a model chooses among: a verb, then letters or words. `tell C` is post_message to whom C names.

A letter names a person, file, table, channel, issue or project; letters are dealt anew for each task and seed of a
task, so that none means anything by itself. In facts a call names things in braces: `tell {Ann Alder}`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from training.engine.environments.office.world import World

DONE = "done"
"""Ends the episode."""
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without I and O, which read as numbers."""
NAMED = re.compile(r"\{([^{}]+)\}")


class ToolCall(NamedTuple):
    """A call of a tool, with the things by their own names."""

    tool: str
    arguments: dict[str, Any]


Meaning = Callable[[World, Sequence[str]], ToolCall]
"""World and words after the verb → the call. The issue and the file at hand are the world's."""


def _simple(tool: str, *names: str) -> Meaning:
    return lambda world, words: ToolCall(tool, dict(zip(names, words, strict=True)))


VERBS: Mapping[str, Meaning] = {
    "open": _simple("open_sheet", "file"),
    "read": _simple("read_file", "file"),
    "save": _simple("save_sheet", "file"),
    "join": _simple("join_sheet", "file"),
    "keep": _simple("keep_rows", "value"),
    "sort": _simple("sort_rows", "column"),
    "first": lambda world, words: ToolCall("first_rows", {"count": int(words[0])}),
    "list": _simple("list_column", "column"),
    "sum": _simple("sheet_sum", "column"),
    "mean": _simple("sheet_mean", "column"),
    "count": _simple("sheet_count", "column"),
    "max": _simple("sheet_max", "column"),
    "min": _simple("sheet_min", "column"),
    "less": _simple("subtract_columns", "column", "minus"),
    "query": _simple("open_table", "table"),
    "insert": _simple("add_rows", "table"),
    "tell": _simple("post_message", "to"),
    "post": _simple("post_message", "to"),
    "ask": _simple("ask_person", "person"),
    "add": _simple("add_member", "person", "channel"),
    "issues": _simple("list_issues", "project"),
    "find": _simple("find_issue", "issue"),
    "new": _simple("create_issue", "issue", "project"),
    "assign": lambda world, words: ToolCall("assign_issue", {"issue": world.issue, "person": words[0]}),
    "label": lambda world, words: ToolCall("label_issue", {"issue": world.issue, "label": words[0]}),
    "close": lambda world, words: ToolCall("set_issue_state", {"issue": world.issue, "state": "closed"}),
    "reopen": lambda world, words: ToolCall("set_issue_state", {"issue": world.issue, "state": "open"}),
    "comment": lambda world, words: ToolCall("comment_issue", {"issue": world.issue}),
    "share": lambda world, words: ToolCall("share_file", {"file": world.file, "person": words[0]}),
}


def as_tool_call(world: World, call: str) -> ToolCall:
    """What a call of the facts means now. Raises KeyError or ValueError for one that means nothing."""
    verb, *words = [named or plain for named, plain in re.findall(r"\{([^{}]+)\}|(\S+)", call)]
    return VERBS[verb](world, words)


def names_in(texts: Iterable[str]) -> list[str]:
    """What texts name in braces, each once, in order."""
    return list(dict.fromkeys(name for text in texts for name in NAMED.findall(text)))


class Deal:
    """Which letter names what, in one episode."""

    def __init__(self, names: Sequence[str], draw: random.Random) -> None:
        """Raises ValueError for more names than letters."""
        if len(names) > len(LETTERS):
            raise ValueError(f"{len(names)} names, but {len(LETTERS)} letters")
        self.letters = dict(zip(names, draw.sample(LETTERS, len(names)), strict=True))
        longest_first = sorted(names, key=len, reverse=True)
        self._names = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")

    def shorten(self, call: str) -> str:
        """`tell {Ann Alder}` → `tell C`."""
        return NAMED.sub(lambda found: self.letters[found[1]], call)

    def explain(self, text: str) -> str:
        """Each name with its letter after it, so that what reads from left to right knows what the letter stands for:
        `Ann Alder: ready` → `Ann Alder C: ready`."""
        return self._names.sub(lambda found: f"{found[0]} {self.letters[found[0]]}", text)


def plain(text: str) -> str:
    """Without the braces."""
    return NAMED.sub(r"\1", text)
