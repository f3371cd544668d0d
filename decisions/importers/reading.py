"""Reads files as records with constant memory: JSON lines, JSON lists of any length, single JSON values, and CSV.

The limits of the API hold for each record, except the size: a trace may be large.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import msgspec

from decisions.importers.opening import UTF8_MARK, UnreadableContent, ending_of, open_utf8
from decisions.importers.records import Place, Reading, Record, Refusal
from workspaces.errors import ReckonerError
from workspaces.http.parsing import check_body

LONGEST_RECORD = 16 << 20
CHUNK = 1 << 18
SHORT_VALUE = 1 << 12
BLANK = " \t\r\n"
BETWEEN = BLANK + ","
AS_BYTES = "surrogateescape"
"""Bytes that are not UTF-8 are kept as what they were, so that only their record is refused."""
BYTE = re.compile("[\udc80-\udcff]")
DECODER = json.JSONDecoder(strict=False)  # control characters are for the check of each record
NEXT_BRACKETS = re.compile(r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[{]++|[\]}]++)', re.DOTALL)
"""Brackets that stand side by side are one step of Python, however many."""
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


class UnusableFile(ValueError):
    """It cannot be read at all."""


def find_files(path: Path, endings: Sequence[str]) -> list[Path]:
    """The file itself, or a folder's files with one of the endings, in order of their names. Raises UnusableFile."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and ending_of(file) in endings)
        if not found:
            raise UnusableFile(f"{path}: holds no file that ends in {', '.join(endings)}")
        return found
    if not path.is_file():
        raise UnusableFile(f"{path}: file or folder not found")
    if ending_of(path) not in endings:
        raise UnusableFile(
            f"{path}: ends in {path.suffix or 'nothing'}; this format's files end in {', '.join(endings)}"
        )
    return [path]


def read_json_files(files: Iterable[Path], reading: Reading) -> Iterator[Record | Refusal]:
    for file in files:
        yield from read_json(file, reading)


def read_json(path: Path, reading: Reading) -> Iterator[Record | Refusal]:
    """Every value of a file: of a list its entries, of lines each line, else the values as they follow each other. A
    file that the disk does not give is a refusal."""
    try:
        with open_utf8(path) as file:
            begin = file.tell()
            first = _first_line(file)
            file.seek(begin)
            lines = first.lstrip()[:1] != b"[" and _is_json(first)
            yield from _read_lines(file, str(path), reading) if lines else read_values(file, str(path), reading)
    except OSError as error:
        yield refuse_file(path, error)


def refuse_file(path: Path, error: OSError) -> Refusal:
    reason = error.strerror or str(error)
    if not isinstance(error, UnreadableContent):
        reason = f"cannot be read: {reason}"
    return Refusal(Place(str(path), 1), "", reason)


def _first_line(file: BinaryIO) -> bytes:
    """The first line that is not blank; a part of it where it is very long."""
    while line := file.readline(LONGEST_RECORD):
        if line.strip():
            return line
    return b""


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        # A broken first line of many is still lines: they end in a brace, an opened object does not.
        return line.rstrip().endswith(b"}")
    return True


def decode(body: bytes, place: Place) -> Record | Refusal:
    """One value from its bytes, after the limits."""
    try:
        check_body(body, limit=LONGEST_RECORD)
        return Record(place, msgspec.json.decode(body), len(body))
    except ReckonerError as error:
        return Refusal(place, "", error.message.replace("The body", "The record"))
    except UnicodeDecodeError as error:
        return Refusal(place, "", f"is not UTF-8: {error.reason}")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Refusal(place, "", f"is not JSON: {error}")


def _read_lines(file: BinaryIO, name: str, reading: Reading) -> Iterator[Record | Refusal]:
    number = 0
    while line := file.readline(LONGEST_RECORD + 1):
        number += 1
        reading.advance(len(line))
        place = Place(name, number)
        if len(line) > LONGEST_RECORD:
            yield Refusal(place, "", f"is longer than {LONGEST_RECORD >> 20} MiB")
            while line and not line.endswith(b"\n"):
                line = file.readline(CHUNK)
                reading.advance(len(line))
        elif body := line.removeprefix(UTF8_MARK).strip():  # files that were put together have several
            yield decode(body, place)


def read_values(file: BinaryIO, name: str, reading: Reading, *, line: int = 1) -> Iterator[Record | Refusal]:
    """Entries of a list, or values one after another, each decoded by itself: the file is never whole in memory. What
    follows a list is not read. `line`: the one at which the file stands."""
    text = io.TextIOWrapper(io.BufferedReader(_Counted(file, reading)), encoding="utf-8", errors=AS_BYTES, newline="")
    buffer, at, wanted = "", 0, 1
    counted = 0  # where `line` is
    closing = Closing()
    in_list: bool | None = None
    ended = False
    while True:
        if not ended and len(buffer) - at < wanted:
            chunk = text.read(max(CHUNK, wanted - (len(buffer) - at)))
            ended = not chunk
            line += buffer.count("\n", counted, at)
            buffer, at, counted = buffer[at:] + chunk, 0, 0
        start = at
        while start < len(buffer) and buffer[start] in (BETWEEN if in_list else BLANK):
            start += 1
        if start == len(buffer):
            if ended:
                if in_list:
                    yield Refusal(Place(name, line), "", "the list is not closed: the file is cut off")
                return
            at, wanted = start, 1
            continue
        if in_list is None and buffer[start] == "[":
            in_list, at, wanted = True, start + 1, 1
            continue
        in_list = bool(in_list)
        if in_list and buffer[start] == "]":
            return
        line += buffer.count("\n", counted, start)
        at = counted = start
        place = Place(name, line)
        end = find_end(buffer, start, ended=ended, closing=closing)
        if end is None:
            if ended or len(buffer) - at > LONGEST_RECORD:
                cut = "is not JSON, or is cut off" if _is_unicode(buffer[at:]) else "is not UTF-8"
                why = cut if ended else f"is longer than {LONGEST_RECORD >> 20} MiB"
                yield Refusal(place, "", f"{why}; the rest of the file is not read")
                return
            wanted = 2 * max(CHUNK, len(buffer) - at)
            continue
        yield decode(buffer[start:end].encode(errors=AS_BYTES), place)
        at, wanted, closing = end, 1, Closing()


@dataclass(slots=True)
class Closing:
    """The search for the bracket that closes a value, as far as its text was seen: every bracket is counted once,
    however often more text has to come. at: characters from the value's start. depth: brackets that are open there."""

    at: int = 0
    depth: int = 0

    def find(self, text: str) -> int | None:
        """Returns where the value ends that `text` begins with; None where that does not close it."""
        while (found := NEXT_BRACKETS.match(text, self.at)) is not None:
            begin, end = found.span(1)
            if text[begin] in "[{":
                self.depth += end - begin
            elif end - begin < self.depth:
                self.depth -= end - begin
            else:
                last = begin + max(self.depth, 1)
                return last if last > 1 else None
            self.at = end
        return None


def find_end(text: str, start: int, *, ended: bool, closing: Closing | None = None) -> int | None:
    """Where the value that begins at `start` ends, also of an object or list that is no JSON, so that what follows it
    is read; None while more text is needed to know. `closing`: of an earlier call for the same value with less text."""
    closing = Closing() if closing is None else closing
    # In growing pieces: an error of Python's decoder counts the lines of all text before it.
    size = SHORT_VALUE
    while True:
        is_all = start + size >= len(text)
        if (end := _find_end(text[start : start + size], closing, ended=ended and is_all)) is not None:
            return start + end
        if is_all:
            return None
        size *= 8


def _find_end(text: str, closing: Closing, *, ended: bool) -> int | None:
    try:
        _, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return closing.find(text)
    # A number at the very end may go on in the next chunk.
    return end if end < len(text) or ended else None


def read_csv(path: Path, reading: Reading) -> Iterator[Record | Refusal]:
    """Rows as objects of texts; the first line names the columns, and comma, semicolon or tab parts them."""
    try:
        with open_utf8(path) as raw:
            yield from _read_table(raw, str(path), reading)
    except OSError as error:
        yield refuse_file(path, error)


def _read_table(raw: BinaryIO, name: str, reading: Reading) -> Iterator[Record | Refusal]:
    text = io.TextIOWrapper(io.BufferedReader(_Counted(raw, reading)), encoding="utf-8", errors=AS_BYTES, newline="")
    rows: Iterator[Any] | None = None
    number = 1
    try:
        first = text.readline(LONGEST_RECORD)
        delimiter = max(",;\t", key=first.count)
        columns = next(csv.reader([first], delimiter=delimiter), [])
        if len(set(columns)) != len(columns):
            yield Refusal(Place(name, 1), "", "two columns have the same name; nothing is read")
            return
        rows = csv.reader(_limited(text), delimiter=delimiter, strict=True)
        for cells in rows:
            place = Place(name, number + 1)
            number = rows.line_num + 1  # type: ignore[attr-defined]
            if not cells:
                continue
            if len(cells) != len(columns):
                yield Refusal(place, "", f"has {len(cells)} cells, but the first line names {len(columns)}")
            elif not all(_is_unicode(cell) for cell in cells):
                yield Refusal(place, "", "is not UTF-8")
            elif any("\0" in cell for cell in cells):
                yield Refusal(place, "", "contains a NUL character, which is not allowed")
            else:
                yield Record(place, dict(zip(columns, cells, strict=True)), sum(map(len, cells)))
    except csv.Error as error:
        yield Refusal(Place(name, number + 1), "", f"{error}; the rest of the file is not read")


def _is_unicode(text: str) -> bool:
    """Whether its bytes were UTF-8."""
    return not BYTE.search(text)


def _limited(text: TextIO) -> Iterator[str]:
    csv.field_size_limit(LONGEST_RECORD)
    while line := text.readline(LONGEST_RECORD + 1):
        if len(line) > LONGEST_RECORD:
            raise csv.Error(f"a line is longer than {LONGEST_RECORD >> 20} MiB")
        yield line


class _Counted(io.RawIOBase):
    """A file that says how much of it was read."""

    def __init__(self, raw: BinaryIO, reading: Reading) -> None:
        self._raw = raw
        self._reading = reading

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._raw.read(len(buffer))
        buffer[: len(got)] = got
        self._reading.advance(len(got))
        return len(got)
