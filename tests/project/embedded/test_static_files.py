"""`up` collects static files once for each release."""

from __future__ import annotations

from pathlib import Path

from project.embedded.layout import Layout
from project.embedded.static_files import StaticFiles, fingerprint


def test_files_that_changed_or_came_make_another_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "base.css").write_text("a {}")
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    (tmp_path / "base.css").write_text("a {}\n")
    changed = fingerprint(tmp_path)
    (tmp_path / "new.css").touch()
    assert len({before, changed, fingerprint(tmp_path)}) == 3


def test_they_count_as_collected_once_it_was_noted(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    assert not StaticFiles(Layout(tmp_path)).are_collected()
    StaticFiles(Layout(tmp_path)).note_collected()
    assert StaticFiles(Layout(tmp_path)).are_collected()
    (tmp_path / "static" / ".collected").write_text("of another release")
    assert not StaticFiles(Layout(tmp_path)).are_collected()
