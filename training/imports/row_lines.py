"""The rows of a file as JSON, with the lines on which they stand: JSON lines, a JSON list, or one object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from decisions.importers.opening import UTF8_MARK, open_utf8
from workspaces.errors import InvalidInput
from workspaces.http.list_items import split_list

ESCAPE = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\u0000")
"""What is looked at from left to right: an escaped backslash and a pair of surrogates stay as they are, half of a pair
and a NUL do not."""
REPLACED = rb"\ufffd"
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a row raises."""


def read_row_lines(path: Path, name: str = "") -> tuple[dict[int, bytes], list[str]]:
    """The JSON of each row by its line, of a list by its place in it, both from 1, and what is wrong with the whole
    file. Half a surrogate pair and NUL, which no model and no database reads, are the replacement character."""
    try:
        with open_utf8(path) as file:
            content = repair(file.read())
    except OSError as error:
        return {}, [f"{name or path}: {error.strerror}"]
    start = content.lstrip()[:1]
    if start == b"[":
        with suppress(InvalidInput):
            return dict(enumerate(_entries(content), start=1)), []
    lines = {number: line.removeprefix(UTF8_MARK).strip() for number, line in enumerate(content.splitlines(), start=1)}
    lines = {number: line for number, line in lines.items() if line}
    if start == b"{" and len(lines) > 1 and as_object(next(iter(lines.values()))) is None and as_object(content):
        return {next(iter(lines)): content}, []  # one object over many lines
    return lines, []


def _entries(content: bytes) -> list[bytes]:
    """Cuts a list into its entries, even where some are no JSON. Raises InvalidInput for what is no list."""
    try:
        return [bytes(raw) for raw in msgspec.json.decode(content, type=list[msgspec.Raw])]
    except BROKEN:
        return split_list(content, len(content))


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
