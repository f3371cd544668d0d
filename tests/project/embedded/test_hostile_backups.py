"""Backups that somebody else made: members that climb, links, devices, holes and bombs write nothing elsewhere."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import msgspec
import pytest

from project.backup.form import ABOUT, FORM, About
from project.embedded.layout import Layout
from tests.project.embedded.test_backup import Manage

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("embedded")]
BEGIN = msgspec.json.encode(About(FORM, "2026-11-28T00:00:00+00:00", "18", True, True))


def add(tar: tarfile.TarFile, name: str, content: bytes = b"x", **fields: object) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    tar.addfile(member, io.BytesIO(content))


def check_refused(layout: Layout, file: Path, reason: str) -> None:
    done = Manage(layout, DATABASE_URL="")("restore", file)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert reason in done.stderr


def test_nothing_is_written_elsewhere(layout: Layout, tmp_path: Path) -> None:
    file, outside = tmp_path / "a.tar", tmp_path / "outside"
    outside.mkdir()
    with tarfile.open(file, "w") as tar:
        add(tar, ABOUT, BEGIN)
        climbing = ("artifacts/sha256/../../climbed", f"runs/{outside}/absolute", "runs/", "runs/..", "secrets/../up")
        for name in climbing:
            add(tar, name)
        add(tar, f"{outside}/absolute")
        add(tar, "runs/nul", pax_headers={"path": "runs/a\0b"})
        add(tar, "runs/link", b"", type=tarfile.SYMTYPE, linkname=str(outside))
        add(tar, "runs/link/through")  # a folder of that name, since no link was made
        add(tar, "runs/hard", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd")
        add(tar, "runs/device", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
        add(tar, "runs/pipe", b"", type=tarfile.FIFOTYPE)
        add(tar, "runs/twice", b"first")
        add(tar, "runs/twice", b"second")
        add(tar, "secrets/deep/secret_key", b"s")
    check_refused(layout, file, "has no database.dump")
    runs = layout.var / "runs"
    assert sorted(str(path.relative_to(runs)) for path in runs.rglob("*")) == ["link", "link/through", "twice"]
    assert (runs / "twice").read_text() == "second" and not (runs / "link").is_symlink()
    assert list(outside.iterdir()) == [] and not [*tmp_path.rglob("climbed"), *layout.var.rglob("up")]
    assert not (layout.secrets / "deep").exists()


@pytest.mark.parametrize("name", ["database.dump", "artifacts/sha256/ab/x", "secrets/secret_key", ABOUT])
def test_holes_are_not_filled(layout: Layout, tmp_path: Path, name: str) -> None:
    """A file of 10 KB that would become 8 EiB."""
    holes = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 62), "GNU.sparse.major": "0", "GNU.sparse.minor": "1"}
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        if name != ABOUT:
            add(tar, ABOUT, BEGIN)
        add(tar, name, pax_headers=holes)
    check_refused(layout, tmp_path / "a.tar", "is too long" if name == ABOUT else "is a sparse file")
    assert not [path for path in (layout.var / "artifacts").rglob("*") if path.is_file()]


def test_a_secret_is_short(layout: Layout, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        add(tar, ABOUT, BEGIN)
        add(tar, "secrets/secret_key", b"s" * (1 << 17))
    check_refused(layout, tmp_path / "a.tar", "is too long for a secret")
