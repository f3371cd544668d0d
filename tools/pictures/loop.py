"""The picture of the loop: its stations, and the SVG that draws them. `python -m tools.pictures` writes it.

The stations stand here and nowhere else. A test holds their names to the walkthrough's headings, their files to the
code, and the committed `loop.svg` to what this module draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 992, 420
BOX_WIDTH, BOX_HEIGHT = 228, 78
COLUMNS = (6, 257, 508, 758)
ROWS = (6, 116, 226, 336)
MIDDLE_ROW = (ROWS[1] + ROWS[2]) // 2
# Characters that fit into a box with the widest of the fonts named below.
MOST_CHARACTERS = {"what": 28, "path": 30}


@dataclass(frozen=True, slots=True)
class Station:
    """One step of the loop: its name, what comes of it, and the file where a reader begins.

    The picture shows the file's path inside its floor; a box's colour is the floor."""

    name: str
    what: str
    file: str

    @property
    def floor(self) -> str:
        return self.file.partition("/")[0]

    @property
    def path(self) -> str:
        return self.file.partition("/")[2]


STATIONS = (
    Station("serve", "a model answers an agent", "decisions/gateway/decide.py"),
    Station("record", "what was decided, and how", "decisions/ingest/writer.py"),
    Station("feedback", "observed afterwards", "decisions/ingest/feedback.py"),
    Station("reward", "a number, calculated nightly", "decisions/rewards/calculate.py"),
    Station("dataset", "rewarded decisions, frozen", "training/datasets/snapshots.py"),
    Station("train", "a run, a process of its own", "training/supervision/job.py"),
    Station("evaluate", "against its base, held out", "training/evaluation/scores.py"),
    Station("register", "a frozen version, its gate", "models_registry/versions/services.py"),
    Station("export", "whole weights, verified", "training/exports/services.py"),
    Station("experiment", "a share of units meets it", "models_registry/experiments/services.py"),
    Station("promote", "by evidence, or rolled back", "decisions/rewards/maturing.py"),
)
# Where each stands, clockwise, and the sides by which the arrow from it leaves and arrives.
PLACES = (
    *((column, ROWS[0]) for column in COLUMNS),
    (COLUMNS[3], ROWS[1]),
    (COLUMNS[3], ROWS[2]),
    *((column, ROWS[3]) for column in reversed(COLUMNS)),
    (COLUMNS[0], MIDDLE_ROW),
)
FLOORS = (
    ("decisions", "the ledger: what was decided, and what it was worth"),
    ("training", "from the ledger to a better model"),
    ("models_registry", "what can serve, and who is served by it"),
)
# The colours of static/css/tokens.css, so that the picture is of one piece with the pages.
STYLE = """
.box { fill: #ffffff; stroke: #e2e2de } .ground { fill: #f7f7f5 }
.name { fill: #1b1c20; font-weight: 600; font-size: 16px } .what { fill: #5d6169; font-size: 13px }
.file { fill: #5d6169; font-size: 11px; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.arrow { stroke: #8b8e95; stroke-width: 1.5; fill: none } .head { fill: #8b8e95 }
.decisions { fill: #4353c4 } .training { fill: #b3521e } .models_registry { fill: #17703f }
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
@media (prefers-color-scheme: dark) {
  .box { fill: #1a1b1f; stroke: #2d2f36 } .ground { fill: #121316 }
  .name { fill: #ececef } .what, .file { fill: #a2a6af }
  .arrow { stroke: #767b86 } .head { fill: #767b86 }
  .decisions { fill: #a3aeff } .training { fill: #f0a070 } .models_registry { fill: #62ca94 }
}
"""


def draw_loop() -> str:
    """The SVG's text, for light and dark grounds. The same on every machine."""
    names = ", ".join(station.name for station in STATIONS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img" aria-labelledby="title">',
        f'<title id="title">The loop: {names}, and serve again</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="12"/>',
    ]
    for here, there in zip(PLACES, PLACES[1:] + PLACES[:1], strict=True):
        parts.append(_arrow(here, there))
    for station, place in zip(STATIONS, PLACES, strict=True):
        parts.append(_box(station, place))
    parts += _legend()
    return "\n".join([*parts, "</svg>", ""])


def _arrow(here: tuple[int, int], there: tuple[int, int]) -> str:
    """From the side of one box to the facing side of the next one, straight."""
    (x, y), (to_x, to_y) = here, there
    half_width, half_height = BOX_WIDTH // 2, BOX_HEIGHT // 2
    if x == to_x:
        down = to_y > y
        start, end = (y + BOX_HEIGHT + 3, to_y - 3) if down else (y - 3, to_y + BOX_HEIGHT + 3)
        line = f"M{x + half_width} {start}V{end}"
    else:
        right = to_x > x
        start, end = (x + BOX_WIDTH + 3, to_x - 3) if right else (x - 3, to_x + BOX_WIDTH + 3)
        line = f"M{start} {y + half_height}H{end}"
    return f'<path class="arrow" marker-end="url(#tip)" d="{line}"/>'


def _box(station: Station, place: tuple[int, int]) -> str:
    x, y = place
    return "\n".join(
        [
            f'<g transform="translate({x} {y})">',
            f'<rect class="box" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>',
            f'<rect class="{station.floor}" x="0" y="10" width="4" height="{BOX_HEIGHT - 20}" rx="2"/>',
            f'<text class="name" x="14" y="25">{escape(station.name)}</text>',
            f'<text class="what" x="14" y="46">{escape(station.what)}</text>',
            f'<text class="file" x="14" y="65">{escape(station.path)}</text>',
            "</g>",
        ]
    )


def _legend() -> list[str]:
    """In the middle of the ring: which colour is which floor of the code."""
    left, top = COLUMNS[1] + 30, ROWS[1] + 22
    lines = [f'<text class="name" x="{left}" y="{top}">One loop, closed</text>']
    for number, (floor, what) in enumerate(FLOORS):
        y = top + 36 + 46 * number
        lines += [
            f'<rect class="{floor}" x="{left}" y="{y - 13}" width="4" height="36" rx="2"/>',
            f'<text class="file" x="{left + 14}" y="{y}">{floor}/</text>',
            f'<text class="what" x="{left + 14}" y="{y + 19}">{escape(what)}</text>',
        ]
    return lines
