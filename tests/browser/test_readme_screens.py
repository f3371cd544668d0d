"""The README's screenshots can be taken: every page that they show opens, and the file is small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.pictures.screens import WIDTH, screens, take_screen


def test_every_screen_of_the_readme_can_be_taken(
    open_tab: Any, admin: Any, scene: Any, log_in: Any, tmp_path: Path
) -> None:
    tab = log_in(open_tab(width=WIDTH), admin)
    for screen in screens():
        taken = take_screen(tab, screen, scene, tmp_path).read_bytes()
        assert taken[8:12] == b"WEBP"
        assert 5_000 < len(taken) < 150_000, screen.name
