"""Prints what the demo of learning by acting showed (`manage.py demo math`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def print_episodes(console: Console, found: Mapping[str, Any]) -> None:
    """`found` is what `training.local.episode_demo.run_demo` returned."""
    table = Table(title=f"{found['tasks']} unseen tasks of {found['environment']}", title_justify="left")
    for heading in ("", "solved before", "after", "difference, 95 %"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, told in found["by_template"].items():
        table.add_row(name, *_cells(told))
    table.add_row("all, as it serves", *_cells(found["solved"]), style="bold")
    if "solved_greedily" in found:
        table.add_row("all, greedily", *_cells(found["solved_greedily"]))
    console.print(table)
    before, after = found["scores"]["base"], found["scores"]["trained"]
    console.print(
        f"An episode takes {before['steps']:.1f} steps before and {after['steps']:.1f} after; "
        f"{before['progress']:.0%} and {after['progress']:.0%} of the steps earn something."
    )
    if found["alarm"] is not None:
        console.print(f"An alarm stopped the training: {found['alarm']}", style="bold")
    if found["example"] is not None:
        console.print(f"\n{found['example']['task']}", style="bold")
        for which, heading in (("base", "before"), ("trained", "after")):
            steps = "; ".join(f"{action} ({reward:g})" for action, reward in found["example"][which])
            console.print(f"  {heading:7}{steps}", highlight=False)
    console.print(f"\n{_verdict(found['solved'])} {found['seconds']:.0f} s.")
    if "model" in found:
        console.print(f"The trained model is in {found['model']}", highlight=False)


def _verdict(solved: Mapping[str, Any]) -> str:
    _, low, high = solved["gain"]
    if low > 0:
        return "The trained model solves more."
    return "The trained model solves less." if high < 0 else "The trained model is not shown to be better."


def _cells(told: Mapping[str, Any]) -> tuple[str, str, str]:
    mean, low, high = told["gain"]
    return f"{told['base']:.2f}", f"{told['trained']:.2f}", f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
