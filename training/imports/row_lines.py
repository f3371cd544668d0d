"""The rows of a file as JSON, with the lines on which they stand: JSON lines, a JSON list, or one object."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os import SEEK_END
from pathlib import Path
from typing import Any

import msgspec

from decisions.importers.opening import LARGEST, UTF8_MARK, open_utf8
from workspaces.errors import InvalidInput
from workspaces.http.list_items import split_list

ESCAPE = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\u0000")
"""What is looked at from left to right: an escaped backslash and a pair of surrogates stay as they are, half of a pair
and a NUL do not."""
REPLACED = rb"\ufffd"
BLANK = re.compile(rb"\s*+")
LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
MOST_ROWS = 1_000_000
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a row raises."""


class RowLines(Mapping[int, bytes]):
    """Each row by its number. A row is cut from the file when it is looked at: a file of many short rows takes little
    more memory than its bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._numbers, self._starts, self._ends = array("Q"), array("Q"), array("Q")

    def add(self, number: int, start: int, end: int) -> None:
        """The next row, which is from `start` to `end`."""
        self._numbers.append(number)
        self._starts.append(start)
        self._ends.append(end)

    def __getitem__(self, number: int) -> bytes:
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            raise KeyError(number)
        return self._content[self._starts[index] : self._ends[index]].removeprefix(UTF8_MARK).strip()

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def read_row_lines(path: Path, name: str = "") -> tuple[Mapping[int, bytes], list[str]]:
    """The JSON of each row by its line, of a list by its place in it, both from 1, and what is wrong with the whole
    file. Half a surrogate pair and NUL, which no model and no database reads, are the replacement character."""
    name = name or str(path)
    try:
        with open_utf8(path) as file:
            begin = file.tell()
            if file.seek(0, SEEK_END) - begin > LARGEST:
                return {}, [f"{name}: holds more than {LARGEST >> 20} MiB; cut it into several files"]
            file.seek(begin)
            content = repair(file.read())
    except OSError as error:
        return {}, [f"{name}: {error.strerror}"]
    begin = BLANK.match(content).end()  # type: ignore[union-attr]
    start, lines = content[begin : begin + 1], None
    if start == b"[":
        with suppress(InvalidInput):
            lines = _split_list(content, begin + 1)
    if lines is None:
        lines = _split_lines(content)
    if len(lines) > MOST_ROWS:
        return {}, [f"{name}: has more than {MOST_ROWS:,} rows; cut it into several files"]
    if start == b"{" and len(lines) > 1 and as_object(next(iter(lines.values()))) is None and as_object(content):
        return {next(iter(lines)): content}, []  # one object over many lines
    return lines, []


def _split_lines(content: bytes) -> RowLines:
    lines = RowLines(content)
    for number, line in enumerate(LINE.finditer(content), start=1):
        if line[0].strip():
            lines.add(number, *line.span())
    return lines


def _split_list(content: bytes, begin: int) -> RowLines:
    """`begin`: behind the bracket. Raises InvalidInput for what is no list."""
    lines = RowLines(content)
    for number, entry in enumerate(_entries(content), start=1):
        begin = content.index(entry, begin)  # only blanks and a comma are before it
        lines.add(number, begin, begin := begin + len(entry))
    return lines


def _entries(content: bytes) -> Iterator[bytes]:
    """Cuts a list into its entries, even where some are no JSON. Raises InvalidInput for what is no list."""
    try:
        yield from map(bytes, msgspec.json.decode(content, type=list[msgspec.Raw]))
    except BROKEN:
        yield from split_list(content, MOST_ROWS)


def repair(content: bytes) -> bytes:
    """JSON without halves of surrogate pairs and NUL."""
    if b"\\u" in content:
        content = ESCAPE.sub(lambda found: found[0] if len(found[0]) in (2, 12) else REPLACED, content)
    return content.replace(b"\0", "\ufffd".encode())


def as_object(line: bytes) -> dict[str, Any] | None:
    """None for what is no JSON object."""
    try:
        found = msgspec.json.decode(line)
    except BROKEN:
        return None
    return found if isinstance(found, dict) else None


def find_first(lines: Mapping[int, bytes]) -> dict[str, Any] | None:
    """The first row that can be read, which says of what kind a file is, so that a broken one before it does not make
    it another's."""
    return next((found for line in lines.values() if (found := as_object(line)) is not None), None)
