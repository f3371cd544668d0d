"""Rehearsals as pages show them, from the report of a real one: 10,000 decisions on ten labels (docs/results.md).

The units of its experiment were simulated afterwards, on made-up policies of its two accuracies.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tools.factories import RehearsalFactory
from training.loops.rehearsal.report import report_all

REPORT = Path(__file__).with_name("rehearsal.json")
REFUSAL = "The effective sample size is 31, fewer than 50."


def read_report(*, seeds: int = 1) -> dict[str, Any]:
    """The real report. Further seeds are made from it: the second one is not better, and its log cannot answer."""
    report: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))
    if seeds == 1:
        return report
    results = [report["seeds"][0]]
    for number in range(1, seeds):
        seed = copy.deepcopy(results[0])
        seed["seed"] = number
        for entry in (seed["base"], seed["ceiling"], *(one["accuracy"] for one in seed["rounds"])):
            for end in ("mean", "low", "high"):
                entry[end] -= 0.01 * number
        for entry in seed["rounds"]:
            entry["right_share"] -= 0.02 * number
        seed["final"] = seed["rounds"][-1]["accuracy"]
        seed["of_ceiling"] = seed["final"]["mean"] / seed["ceiling"]["mean"]
        if number == 1:
            seed["better"] = False
            seed["difference"] = seed["rounds"][-1]["difference"] = {
                **seed["difference"],
                "mean": 0.011,
                "low": -0.004,
                "high": 0.026,
            }
            unbounded = {**seed["off_policy"]["ips"], "low": None, "high": None}
            seed["off_policy"] |= {"ips": unbounded, "covered": False}
            seed["off_policy"]["gate"] = {"passed": False, "difference": {}, "lower": None, "refusals": [REFUSAL]}
            seed["needed"][2] |= {"decisions": None, "extrapolated": True}
        results.append(seed)
    return report_all(report["about"], {**report["plan"], "seeds": seeds}, results)


def make_rehearsal(*, workspace: Any, seeds: int = 1, done: int | None = None, **changes: Any) -> Any:
    """One whose seeds are all done, or only the first `done`."""
    report = read_report(seeds=seeds)
    complete = done is None
    return RehearsalFactory(
        workspace=workspace,
        **{
            "name": "Rehearsal of clinc.csv",
            "about": report["about"],
            "plan": report["plan"],
            "results": report["seeds"] if complete else report["seeds"][:done],
            "report": report if complete else None,
            "requested_by": "owner@example.org",
            **changes,
        },
    )
