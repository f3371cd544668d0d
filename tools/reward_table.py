"""`python -m tools.reward_table` writes the reward components into the table of docs/rewards.md."""

from __future__ import annotations

import re

from decisions.rewards.components import COMPONENTS, Component
from tools.instance import ROOT

PAGE = ROOT / "docs" / "rewards.md"
HEAD = (
    "| component | what it values | horizon | of | reads | range | weight | window | proxy |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def write_row(component: Component) -> str:
    reads = [f"`{metric}`" for metric in component.metrics] + sorted(component.reads)
    cells = [
        f"`{component.name}`",
        component.summary,
        component.horizon,
        component.scope,
        ", ".join(reads) or "–",
        f"{number(component.low)} {'or' if component.binary else 'to'} {number(component.high)}",
        number(component.weight),
        "–" if component.window_days is None else f"{component.window_days:g} days",
        component.proxy or "–",
    ]
    return f"| {' | '.join(cells)} |\n"


def write_table() -> str:
    """Our own components, in the order of the code."""
    return HEAD + "".join(map(write_row, COMPONENTS.own.values()))


def render(page: str) -> str:
    """The page with its first table replaced."""
    return re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: write_table(), page, count=1)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
