"""The README's pictures: drawn from their source, there, described, and small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.pictures.loop import FLOORS, MOST_CHARACTERS, STATIONS, draw_loop
from tools.pictures.screens import FOLDER, screens

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MOST_BYTES, MOST_BYTES_TOGETHER = 150_000, 1_000_000
KINDS = {".svg", ".webp", ".png"}
MARKDOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
TAG = re.compile(r"<img\b[^>]*>")


def pictures() -> Iterator[tuple[Path, str, Path]]:
    """(page, alternative text, file) of every picture that a page shows."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = MARKDOWN.findall(text)
        for tag in TAG.findall(text):
            attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
            found.append((attributes.get("alt", ""), attributes["src"]))
        for alternative, source in found:
            yield page, alternative, (page.parent / source).resolve()


def test_the_committed_loop_is_what_the_code_draws() -> None:
    assert (FOLDER / "loop.svg").read_text(encoding="utf-8") == draw_loop(), "make docs ARGS=--loop draws it again"


def test_the_loop_is_well_formed_and_says_every_station() -> None:
    picture = ElementTree.fromstring(draw_loop())
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word in {station.name for station in STATIONS}] == [s.name for s in STATIONS]
    assert "prefers-color-scheme: dark" in draw_loop()


@pytest.mark.parametrize("station", STATIONS, ids=lambda station: station.name)
def test_a_station_s_file_is_there_and_its_words_fit(station: object) -> None:
    assert (ROOT / station.file).is_file()
    assert station.floor in dict(FLOORS)
    for field, most in MOST_CHARACTERS.items():
        assert len(getattr(station, field)) <= most, field


def test_every_picture_that_is_shown_is_there_described_and_small() -> None:
    shown = list(pictures())
    assert shown
    for page, alternative, file in shown:
        assert file.is_file(), f"{page.name}: {file}"
        assert len(alternative) >= 10, f"{page.name}: {file.name} needs an alternative text"
        assert file.stat().st_size < MOST_BYTES, file.name


def test_the_folder_holds_what_is_shown_and_nothing_else() -> None:
    kept = {file for file in FOLDER.iterdir() if file.suffix in KINDS}
    assert kept == {file for _, _, file in pictures() if file.parent == FOLDER}
    assert kept == {FOLDER / "loop.svg"} | {FOLDER / f"{screen.name}.webp" for screen in screens()}
    assert sum(file.stat().st_size for file in kept) < MOST_BYTES_TOGETHER
    for file in kept - {FOLDER / "loop.svg"}:
        assert re.fullmatch(rb"RIFF....WEBP", file.read_bytes()[:12], re.DOTALL), file.name
