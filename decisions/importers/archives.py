"""Unpacks a zip of files to import: a folder in one file, as pages and programs send it.

Only what the format reads is written, under plain names inside a folder of its own; sizes are counted while they are
unpacked, since an archive may lie about them. A member that cannot be read is a refusal, and the others are read.
"""

from __future__ import annotations

import io
import lzma
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from decisions.importers.opening import ending_of
from decisions.importers.reading import UnusableFile, find_files
from decisions.importers.records import Place, Refusal
from workspaces.storage.full_disk import disk_full_raised

ZIP = ".zip"
MOST_FILES, LARGEST = 20_000, 512 << 20
"""Files of an archive, and bytes of all of them together."""
MOST_TABLE = 8 << 20
"""Bytes of an archive's table of members: for as many files with names of 300 bytes and more."""
CHUNK = 1 << 18
LONGEST_PART = 200
"""Bytes of the name of a file or folder; file systems take 255."""
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError),
    UnicodeDecodeError,
)
"""What zipfile raises for what it cannot read."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """`path` is the file or folder to read. `name` is what faults call it, which stands for `path` in their places."""

    path: Path
    name: str
    refusals: tuple[Refusal, ...] = ()

    def find_files(self, endings: Sequence[str]) -> list[Path]:
        """Raises UnusableFile where there is none, and no refusal says why."""
        try:
            return find_files(self.path, endings)
        except UnusableFile:
            if self.refusals:
                return []
            raise

    def named(self, refusal: Refusal) -> Refusal:
        """With the name of the file inside the archive, in place of where it was unpacked."""
        file = refusal.place.file
        if self.name == str(self.path) or not file.startswith(str(self.path)):
            return refusal
        inside = f"{self.name}{file[len(str(self.path)) :]}"
        return Refusal(Place(inside, refusal.place.line), refusal.field, refusal.reason)


@contextmanager
def unpack(path: Path, endings: Sequence[str]) -> Iterator[Unpacked]:
    """Anything but a zip stays where it is. Raises UnusableFile, DiskFull."""
    if path.suffix.lower() != ZIP or not path.is_file():
        yield Unpacked(path, str(path))
        return
    with disk_full_raised(), tempfile.TemporaryDirectory(prefix="reckoner-unpacked-") as folder:
        root = Path(folder) / "files"
        root.mkdir()
        try:
            refusals = _unpack(path, root, endings)
        except BROKEN as error:
            raise UnusableFile(f"{path}: is not a zip that can be read: {error}") from error
        yield Unpacked(root, str(path), tuple(refusals))


class _BoundedReads(io.BufferedReader):
    """A file whose table of members is read only up to MOST_TABLE: zipfile reads all of it at once, and one of 28 MB
    with 600,000 empty files would hold the web process for seconds, and 250 MB."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_TABLE:
            raise zipfile.BadZipFile(f"its table of files has {size:,} bytes; at most {MOST_TABLE:,} are read")
        return super().read(size)


def _unpack(path: Path, root: Path, endings: Sequence[str]) -> list[Refusal]:
    refusals: list[Refusal] = []
    left = LARGEST
    with _BoundedReads(path.open("rb", buffering=0)) as file, zipfile.ZipFile(file) as archive:
        members = [one for one in archive.infolist() if not one.is_dir() and ending_of(Path(one.filename)) in endings]
        if len(members) > MOST_FILES:
            raise UnusableFile(f"{path}: holds {len(members):,} files; at most {MOST_FILES:,} are read")
        if not members:
            raise UnusableFile(f"{path}: holds no file that ends in {', '.join(endings)}")
        for member in members:
            target = root.joinpath(*_parts(member.filename))
            place = Place(f"{path}/{member.filename}", 1)
            try:
                with disk_full_raised():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    left -= _write(archive, member, target, left)
            except (FileExistsError, NotADirectoryError):
                refusals.append(Refusal(place, "", "has the name of another file in the zip"))
            except BROKEN as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                refusals.append(Refusal(place, "", f"cannot be unpacked: {reason}"))
            if left < 0:
                raise UnusableFile(f"{path}: holds more than {LARGEST >> 20} MiB; import a part at a time")
    return refusals


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, most: int) -> int:
    """The bytes that were written: at most one chunk more than allowed. Raises FileExistsError, and one of BROKEN, of
    which nothing is left then."""
    written = 0
    with target.open("xb") as handle:
        try:
            with archive.open(member) as source:
                while written <= most and (chunk := source.read(CHUNK)):
                    written += handle.write(chunk)
        except BROKEN:
            target.unlink()
            raise
    return written


def _parts(name: str) -> list[str]:
    """Its folders and its name, of letters that every file system takes; none leads out of the folder."""
    parts = [_cut(re.sub(r"[^\w .-]", "_", part).strip(" ")) for part in PurePosixPath(name).parts]
    return [part if part.strip(".") else "_" for part in parts if part]


def _cut(part: str) -> str:
    """No longer than file systems take, with its ending, by which formats know their files."""
    ending = PurePosixPath(part).suffix[-20:]
    stem = part[: len(part) - len(ending)].encode()[: LONGEST_PART - len(ending.encode())]
    return stem.decode(errors="ignore") + ending
