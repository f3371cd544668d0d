"""`up` collects static files once for each release, and serves them by hashed names, compressed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from project.embedded.layout import PROJECT_ROOT, Layout
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


ASK = """
from django.core.management import call_command
from django.templatetags.static import static
from django.test import Client

call_command("collectstatic", interactive=False, verbosity=0)
address = static("css/base.css")
answer = Client().get(address, headers={"accept-encoding": "gzip"})
print(address, answer.status_code, answer.headers["Content-Encoding"], answer.headers["Cache-Control"])
"""


@pytest.mark.slow
def test_a_style_sheet_is_served_by_its_hash_compressed_and_for_ever(tmp_path: Path) -> None:
    as_up_sets_it = {**os.environ, "RECKONER_STATIC_FINDERS": "0", "RECKONER_VAR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v", "0", "--command", ASK],
        cwd=PROJECT_ROOT,
        env=as_up_sets_it,
        capture_output=True,
        text=True,
        check=True,
    )
    address, status, encoding, kept = done.stdout.strip().splitlines()[-1].split(" ", 3)
    assert re.fullmatch(r"/static/css/base\.[0-9a-f]{12}\.css", address)
    assert (status, encoding) == ("200", "gzip")
    assert "immutable" in kept
