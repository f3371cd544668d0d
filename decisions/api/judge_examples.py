"""Examples of judges for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decisions.api.examples import CALCULATION
from workspaces.http.examples import MOMENT, Example

CALIBRATION = "01a1f9d4-2b60-7a17-9c44-5e0f3a7d1b92"
HERE = {"slug": "filer"}


def estimate(mean: float, low: float, high: float, n: int = 240, clusters: int = 131) -> dict[str, Any]:
    return {"mean": mean, "low": low, "high": high, "n": n, "clusters": clusters}


A_CALIBRATION = {
    "id": CALIBRATION,
    "metric": "helpful",
    "source": "llm",
    "people_metric": "verdict",
    "verdict": "calibrated",
    "since": "2026-08-22T04:00:00Z",
    "until": "2026-11-20T04:00:00Z",
    "scores": 4812,
    "labels": 240,
    "reasons": [],
    "warnings": ["Its scores differ from people's by +0.042."],
    "assessment": {
        "scores": 4812,
        "labels": 240,
        "units": 131,
        "corrected": estimate(0.671, 0.639, 0.703),
        "labels_only": estimate(0.679, 0.62, 0.738),
        "judged": estimate(0.713, 0.699, 0.727, 4812, 2390),
        "tuning": 0.82,
        "alpha": estimate(0.784, 0.702, 0.866),
        "bias": estimate(0.042, 0.006, 0.078),
        "selected": estimate(0.008, -0.051, 0.067, 4812, 2390),
        "by_length": None,
        "by_place": estimate(0.031, -0.024, 0.086),
        "by_slice": [
            {
                "cut": "version",
                "part": "filer:2",
                "labels": 96,
                "error": estimate(0.052, -0.012, 0.116, 96, 71),
                "apart": estimate(0.017, -0.055, 0.089),
                "p": 0.64,
            }
        ],
    },
    "drift": {
        "old": 180,
        "new": 60,
        "error": estimate(0.011, -0.07, 0.092),
        "size": estimate(-0.004, -0.08, 0.072),
        "p": 1.0,
    },
    "made_by": "system",
    "made_at": "2026-11-20T04:00:02Z",
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "list_judges": [
        Example({"results": [A_CALIBRATION], "uncalibrated": [{"metric": "polite", "source": "llm"}]}, path=HERE)
    ],
    "calibrate_judge": [
        Example({"id": CALCULATION, "state": "queued", "created_at": MOMENT}, 202, {"metric": "helpful"}, HERE)
    ],
}
