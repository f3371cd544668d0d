"""A calibration in words, and as plain values for JSON."""

from __future__ import annotations

from typing import Any

from decisions.judges.calibrating import read_assessment
from decisions.models import JudgeCalibration
from models_registry.statistics.intervals import Interval


def as_plain(row: JudgeCalibration) -> dict[str, Any]:
    """The row's fields as `GET /agents/{slug}/judges` writes them."""
    return {
        "metric": row.metric,
        "source": row.source,
        "people_metric": row.people_metric,
        "verdict": row.verdict,
        "since": row.since.isoformat(),
        "until": row.until.isoformat(),
        "scores": row.scores,
        "labels": row.labels,
        "reasons": row.reasons,
        "warnings": row.warnings,
        "assessment": row.assessment,
        "drift": row.drift,
        "made_by": row.made_by,
        "made_at": row.made_at.isoformat(),
    }


def tell_mean(row: JudgeCalibration) -> list[str]:
    """The mean by each of the three ways, and the agreement; nothing where there is no number."""
    found = read_assessment(row)
    if found is None:
        return []
    return [
        f"Corrected mean {_tell(found.corrected)}; labels alone {_tell(found.labels_only)}; "
        f"the judge's own {_tell(found.judged)}.",
        f"Krippendorff's α {_tell(found.alpha)}.",
    ]


def _tell(found: Interval) -> str:
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"
