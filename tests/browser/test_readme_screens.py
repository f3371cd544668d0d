"""The README's screenshots can be taken: every page that they show opens, and a file is small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.pictures.screens import WIDTH, screens, take_screen


def test_every_screen_of_the_readme_can_be_taken(
    open_tab: Any, admin: Any, scene: Any, log_in: Any, page_client: Any, tmp_path: Path
) -> None:
    """`make docs` takes them all; a test of docs/ holds the files to their size."""
    first, *others = screens()
    taken = take_screen(log_in(open_tab(width=WIDTH), admin), first, scene, tmp_path).read_bytes()
    assert taken[8:12] == b"WEBP"
    assert 5_000 < len(taken) < 150_000
    client = page_client(admin)
    assert {screen.name for screen in others if client.get(screen.address(scene)).status_code != 200} == set()
