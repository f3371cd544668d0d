"""The page of docs/api with the table of reward components; `tools.reference` writes it."""

from __future__ import annotations

from decisions.rewards.components import COMPONENTS, Component
from decisions.rewards.components.component import describe_range

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
        f"{number(component.low)} or {number(component.high)}"
        if component.binary
        else describe_range(component.low, component.high).replace("-", "−"),
        number(component.weight),
        "–" if component.window_days is None else f"{component.window_days:g} days",
        component.proxy or "–",
    ]
    return f"| {' | '.join(cells)} |\n"


def write_table() -> str:
    """Our own components, in the order of the code."""
    return HEAD + "".join(map(write_row, COMPONENTS.own.values()))


def write_page() -> str:
    return (
        "# Reward components\n\n"
        "What the columns mean is in [rewards](../rewards.md#components). `python -m tools.reference` writes this\n"
        "page.\n\n" + write_table()
    )
