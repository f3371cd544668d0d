"""The demo's table: what it prints with an experiment and without."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from project.demo.report import print_report

REPORT: dict[str, Any] = {
    "base": "topics v1",
    "trained": "topics v2",
    "heldout_rows": 300,
    "scores": {
        "base": {"accuracy": {"mean": 0.5, "low": 0.45, "high": 0.55}},
        "trained": {"accuracy": {"mean": 0.7, "low": 0.65, "high": 0.75}},
    },
    "differences": {"accuracy": {"mean": 0.2, "low": 0.15, "high": 0.25}},
    "champion": "topics v2",
    "export": None,
}
EXPERIMENT = {"state": "rolled_back", "units_control": 40, "units_treatment": 41, "verdict": "no better"}


@pytest.mark.parametrize(
    ("experiment", "line"),
    [
        (None, "Experiment   none: the held-out difference does not show an improvement"),
        (EXPERIMENT, "Experiment   rolled back after 40 + 41 units: no better"),
    ],
)
def test_the_table_says_what_came_of_the_experiment(experiment: dict[str, Any] | None, line: str) -> None:
    output = StringIO()
    print_report(Console(file=output, width=120), {**REPORT, "experiment": experiment})
    printed = output.getvalue()
    assert line in printed.splitlines()
    assert "50.0%" in printed and "70.0%" in printed and "topics v2" in printed
