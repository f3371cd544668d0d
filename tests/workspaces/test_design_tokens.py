"""The colours of static/css/tokens.css can be told apart and read: WCAG 2.2, 1.4.3 and 1.4.11, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parents[2] / "static" / "css"
TOKENS = (CSS / "tokens.css").read_text(encoding="utf-8")
PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
COLOURS = {name: (light, dark) for name, light, dark in PAIR.findall(TOKENS)}
GROUNDS = ("canvas", "frame", "surface", "raised", "overlay")
TONES = ("ok", "warn", "bad", "info")


def luminance(colour: str) -> float:
    """Relative luminance in [0, 1], WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio in [1, 21]."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def too_faint(pairs: list[tuple[str, str]], least: float) -> list[str]:
    return [
        f"{front} on {back} is {found:.2f} in {theme}"
        for front, back in pairs
        for number, theme in enumerate(("light", "dark"))
        if (found := contrast(COLOURS[front][number], COLOURS[back][number])) < least
    ]


def test_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_text_can_be_read() -> None:
    written = ["text", "muted", "faint", "accent-text", *TONES]
    pairs = [(front, back) for front in written for back in GROUNDS]
    pairs += [(tone, f"{tone}-soft") for tone in TONES]
    pairs += [(front, f"{tone}-soft") for tone in TONES for front in ("text", "muted")]
    pairs += [("accent-text", "accent-soft"), ("text", "accent-soft"), ("muted", "accent-soft")]
    pairs += [("on-accent", "accent"), ("on-accent", "accent-hover")]
    assert too_faint(pairs, 4.5) == []


def test_controls_and_series_stand_out() -> None:
    drawn = ["control", "accent-text", *(f"series-{number}" for number in range(1, 7))]
    assert too_faint([(front, back) for front in drawn for back in ("canvas", "surface")], 3.0) == []


def test_styles_use_tokens_that_exist_and_no_colour_of_their_own() -> None:
    wrong = []
    for path in sorted(CSS.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        # A page may set a variable of its own, a number of columns for instance.
        declared = set(re.findall(r"--([\w-]+):", TOKENS + text))
        wrong += [f"{path.name}: --{name}" for name in re.findall(r"var\(--([\w-]+)", text) if name not in declared]
        if path.name != "tokens.css":
            bare = re.sub(r"url\([^)]*\)|light-dark\((?:[^()]|\([^)]*\))*\)", "", text)
            wrong += [f"{path.name}: {colour}" for colour in re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)])", bare)]
    assert wrong == []
