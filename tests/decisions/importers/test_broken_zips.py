"""Zips that are broken, or hold names that no file system takes: what can be read is read, the rest has a reason."""

from __future__ import annotations

import stat
import struct
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


def test_a_table_of_far_too_many_members_is_not_read(tmp_path):
    """200,000 empty names: the bytes are few, and reading them as members takes seconds."""
    count = 200_000
    entry = CENTRAL + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    table = entry * count
    end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(table), 0)
    end += b"PK\6\7" + struct.pack("<IQI", 0, len(table), 1)
    end += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    (tmp_path / "a.zip").write_bytes(table + end)
    with pytest.raises(UnusableFile, match="table of files has 9,400,000 bytes"):
        read(tmp_path / "a.zip")


def test_what_leads_out_or_is_no_file_becomes_a_plain_file_inside(tmp_path):
    """Links, devices and names that climb: nothing but their bytes is read."""
    names = ["../../a.json", "/etc/b.json", "c/../../d.json", "..\\..\\e.json", "C:\\f.json", "link.json", "null.json"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in names:
            member = zipfile.ZipInfo(name)
            member.create_system = 3
            kind = {"link.json": stat.S_IFLNK, "null.json": stat.S_IFCHR}.get(name, stat.S_IFREG)
            member.external_attr = (kind | 0o777) << 16
            archive.writestr(member, "/etc/passwd")
    with unpack(tmp_path / "a.zip", [".json"]) as unpacked:
        files = unpacked.find_files([".json"])
        assert len(files) == len(names) and not any(file.is_symlink() for file in files)
        assert all(file.resolve().is_relative_to(unpacked.path.resolve()) for file in files)
        assert {file.read_text() for file in files} == {"/etc/passwd"}
