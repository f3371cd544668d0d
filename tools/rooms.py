"""The import sheet: which rooms a floor has, and which of them import which. `python -m tools.rooms decisions`.

A room is a package or a module right below the floor; an arrow is one room that imports another, however often. The
sheet is a matrix in the order from the top down: a row imports the columns that are marked in it. What is marked to
the left of the diagonal runs back up, which happens where rooms import each other in a circle.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import grimp

FLOORS = ("project", "training", "decisions", "models_registry", "jobs", "workspaces")
PLACES = (*FLOORS, "training.engine")
CELL, LEFT, TOP, MARGIN = 14, 130, 132, 10


@dataclass(frozen=True, slots=True)
class Sheet:
    """`order` from the top down; `arrows` are pairs, who imports and who is imported; `circles` are sets of rooms
    that reach each other; `upward` are the arrows against the order, `above` those to a floor above this one."""

    floor: str
    order: tuple[str, ...]
    arrows: frozenset[tuple[str, str]]
    circles: tuple[tuple[str, ...], ...]
    above: tuple[tuple[str, str], ...]

    @property
    def upward(self) -> list[tuple[str, str]]:
        place = {room: index for index, room in enumerate(self.order)}
        return sorted(arrow for arrow in self.arrows if place[arrow[0]] > place[arrow[1]])

    def as_plain(self) -> dict[str, object]:
        return {
            "floor": self.floor,
            "rooms": len(self.order),
            "arrows": len(self.arrows),
            "circles": [list(circle) for circle in self.circles],
            "upward": [" -> ".join(arrow) for arrow in self.upward],
            "above": [" -> ".join(arrow) for arrow in self.above],
            "order": list(self.order),
        }


def read_sheet(floor: str) -> Sheet:
    """Reads the tree that is on sys.path. Imports inside functions count; nothing is run."""
    package = floor.partition(".")[0]
    higher = FLOORS[: FLOORS.index(package)]
    graph = grimp.build_graph(package, *higher, cache_dir=None)
    rooms = {module.rpartition(".")[2]: module for module in graph.find_children(floor)}
    above = {
        (name, other.partition(".")[0])
        for name, module in rooms.items()
        for inside in {module, *graph.find_descendants(module)}
        for other in graph.find_modules_directly_imported_by(inside)
        if other.partition(".")[0] in higher
    }
    for module in rooms.values():
        graph.squash_module(module)
    arrows = frozenset(
        (name, other.rpartition(".")[2])
        for name, module in rooms.items()
        for other in graph.find_modules_directly_imported_by(module)
        if other in rooms.values() and other != module
    )
    reach = {room: _reach(room, arrows) for room in rooms}
    together = {room: frozenset({room, *(other for other in reach[room] if room in reach[other])}) for room in rooms}
    circles = tuple(sorted(tuple(sorted(circle)) for circle in set(together.values()) if len(circle) > 1))
    # Who reaches more stands higher; those of a circle reach the same, and stand together.
    order = sorted(rooms, key=lambda room: (-len(reach[room] | {room}), min(together[room]), -len(reach[room]), room))
    return Sheet(floor, tuple(order), arrows, circles, tuple(sorted(above)))


def _reach(room: str, arrows: frozenset[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    ahead = [room]
    while ahead:
        here = ahead.pop()
        new = {to for by, to in arrows if by == here} - found
        found |= new
        ahead += new
    return found


def draw(sheet: Sheet) -> str:
    """SVG, light and dark by the reader's system."""
    size = CELL * len(sheet.order)
    place = {room: index for index, room in enumerate(sheet.order)}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + size + MARGIN} {TOP + size + MARGIN}" '
        f'role="img" aria-label="{sheet.floor}: {len(sheet.order)} rooms, {len(sheet.arrows)} arrows">',
        "<style>text{font:11px system-ui,sans-serif;fill:#1f2328}",
        ".line{stroke:#d0d7de}.in{fill:#0969da}.up{fill:#cf222e}",
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.line{stroke:#3d444d}.in{fill:#4493f8}.up{fill:#f85149}}"
        "</style>",
    ]
    for room, index in place.items():
        middle = (index + 0.5) * CELL
        lines += [
            f'<text x="{LEFT - 6}" y="{TOP + middle + 4:g}" text-anchor="end">{room}</text>',
            f'<text transform="translate({LEFT + middle + 4:g} {TOP - 6}) rotate(-90)">{room}</text>',
            f'<path class="line" d="M{LEFT} {TOP + middle:g}h{size}M{LEFT + middle:g} {TOP}v{size}"/>',
        ]
    for by, to in sorted(sheet.arrows, key=lambda arrow: (place[arrow[0]], place[arrow[1]])):
        x, y = (LEFT + (place[to] + 0.5) * CELL, TOP + (place[by] + 0.5) * CELL)
        kind = "up" if place[by] > place[to] else "in"
        lines.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="4"><title>{by} imports {to}</title></circle>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.rooms", description="Counts and draws a floor's imports.")
    parser.add_argument("floor", choices=PLACES)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="another tree, such as an older commit's")
    parser.add_argument("--svg", type=Path, help="where the drawing goes")
    parser.add_argument("--json", action="store_true", help="one line for programs")
    given = parser.parse_args()
    sys.path.insert(0, str(given.root.resolve()))
    sheet = read_sheet(given.floor)
    if given.svg:
        given.svg.write_text(draw(sheet), encoding="utf-8")
    plain = sheet.as_plain()
    if given.json:
        print(json.dumps(plain))
    else:
        circles = "; ".join(" ".join(circle) for circle in sheet.circles) or "none"
        print(f"{sheet.floor}: {plain['rooms']} rooms, {plain['arrows']} arrows, circles: {circles}")
        for by, to in sheet.upward:
            print(f"  back up: {by} imports {to}")
        for by, floor in sheet.above:
            print(f"  to a floor above: {by} imports {floor}")
    return 1 if sheet.circles or sheet.above else 0


if __name__ == "__main__":
    sys.exit(main())
