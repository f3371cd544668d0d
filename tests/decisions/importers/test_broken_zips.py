"""Zips that are broken, or hold names that no file system takes: what can be read is read, the rest has a reason."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from decisions.importers.archives import unpack
from decisions.importers.reading import UnusableFile

CENTRAL = b"PK\1\2"
"""Begins a member's entry in the table at a zip's end."""


def zip_of(path: Path, *names: str, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in names:
            archive.writestr(name, "{}" * 100)
    return path


def read(path: Path) -> tuple[list[str], list[str]]:
    """The files that are found, and the refusals."""
    with unpack(path, [".json"]) as unpacked:
        files = unpacked.find_files([".json"])
        return sorted(str(file.relative_to(unpacked.path)) for file in files), list(map(str, unpacked.refusals))


@pytest.mark.parametrize("letter", ["x", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "\N{GRINNING FACE}"])
def test_a_long_name_keeps_its_ending(tmp_path, letter):
    files, refusals = read(zip_of(tmp_path / "a.zip", letter * 300 + ".json", "b.json"))
    assert len(files) == 2 and all(file.endswith(".json") for file in files) and refusals == []


def test_a_path_that_is_too_long_takes_no_neighbour_along(tmp_path):
    files, [refusal] = read(zip_of(tmp_path / "a.zip", "/".join(["d" * 150] * 60) + "/a.json", "b.json"))
    assert files == ["b.json"] and refusal.endswith("cannot be unpacked: File name too long")


def test_a_file_with_the_name_of_a_folder_takes_no_neighbour_along(tmp_path):
    files, refusals = read(zip_of(tmp_path / "a.zip", "a.json", "a.json/b.json", "c.json/d.json", "c.json"))
    assert files == ["a.json", "c.json/d.json"]
    assert [one.rpartition(": ")[2] for one in refusals] == ["has the name of another file in the zip"] * 2


def test_a_name_that_is_no_text_and_a_version_from_the_future_are_refused(tmp_path):
    for number, (of, by) in enumerate(
        (("é".encode(), b"\xff\xfe"), (CENTRAL + b"\x14\x03\x14", CENTRAL + b"\x14\x03\xc8"))
    ):
        path = zip_of(tmp_path / f"{number}.zip", "é.json")
        content = path.read_bytes()
        assert of in content
        path.write_bytes(content.replace(of, by))
        with pytest.raises(UnusableFile, match="is not a zip that can be read"):
            read(path)


def test_a_member_of_broken_lzma_takes_no_neighbour_along(tmp_path):
    path = zip_of(tmp_path / "a.zip", "a.json", compression=zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    content[45:55] = bytes(value ^ 255 for value in content[45:55])
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b.json", "{}")
    files, [refusal] = read(path)
    assert files == ["b.json"] and "cannot be unpacked" in refusal
