"""Opens files as people have them: `.gz` is unpacked, UTF-16 and UTF-32 become UTF-8, a byte order mark goes."""

from __future__ import annotations

import codecs
import gzip
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from workspaces.storage.full_disk import disk_full_raised

GZ = ".gz"
LARGEST = 512 << 20
"""Bytes of an unpacked file."""
CHUNK = 1 << 18
UTF8_MARK = codecs.BOM_UTF8
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The longer ones first: UTF-32's begins with UTF-16's."""


class UnreadableContent(OSError):
    """The disk gives the file, but it is damaged, too large unpacked, or not in the encoding that its mark names."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.strerror = reason


def ending_of(path: Path) -> str:
    """Its ending in lower case, of `rows.jsonl.gz` the one before `.gz`."""
    ending = path.suffix.lower()
    return Path(path.stem).suffix.lower() if ending == GZ else ending


@contextmanager
def open_utf8(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes in UTF-8 without a mark, from their beginning; what has to be converted lies in a temporary
    file. Raises OSError, DiskFull."""
    with path.open("rb") as raw:
        if path.suffix.lower() != GZ:
            with _as_utf8(raw) as file:
                yield file
            return
        with disk_full_raised(), tempfile.TemporaryFile() as unpacked:
            try:
                with gzip.GzipFile(fileobj=raw) as packed:
                    _copy(cast(BinaryIO, packed), unpacked)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise UnreadableContent(f"is not a gzip file, or is cut off: {error}") from error
            unpacked.seek(0)
            with _as_utf8(unpacked) as file:
                yield file


def grows_beyond(path: Path, most: int) -> bool:
    """Whether a packed file holds more than so many bytes; of a damaged one, whoever reads it tells what is wrong."""
    if path.suffix.lower() != GZ:
        return False
    size = 0
    try:
        with gzip.open(path) as packed:
            while size <= most and (chunk := packed.read(CHUNK)):
                size += len(chunk)
    except (OSError, EOFError, zlib.error):
        pass
    return size > most


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    written = 0
    while chunk := source.read(CHUNK):
        written += target.write(chunk)
        if written > LARGEST:
            raise UnreadableContent(f"holds more than {LARGEST >> 20} MiB unpacked")


@contextmanager
def _as_utf8(file: BinaryIO) -> Iterator[BinaryIO]:
    start = file.read(4)
    encoding = next((name for mark, name in MARKS if start.startswith(mark)), "") or _guess(start)
    file.seek(len(UTF8_MARK) if start.startswith(UTF8_MARK) else 0)
    if not encoding:
        yield file
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    with disk_full_raised(), tempfile.TemporaryFile() as converted:
        try:
            while chunk := file.read(CHUNK):
                converted.write(decoder.decode(chunk).encode())
            converted.write(decoder.decode(b"", final=True).encode())
        except UnicodeDecodeError as error:
            raise UnreadableContent(f"is not {encoding.upper()}, as it begins: {error.reason}") from error
        converted.seek(0)
        yield cast(BinaryIO, converted)


def _guess(start: bytes) -> str:
    """UTF-16 without a mark, as some programs write it: JSON begins with a character of ASCII."""
    if len(start) == 4 and start[1] == start[3] == 0 and start[0] and start[2]:
        return "utf-16-le"
    return "utf-16-be" if len(start) == 4 and start[0] == start[2] == 0 and start[1] and start[3] else ""
