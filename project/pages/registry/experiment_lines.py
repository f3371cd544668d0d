"""Experiments as a table shows them: a line each, their differences on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from models_registry.experiments.variants import name_variants
from models_registry.models import Arm, Experiment
from project.pages.registry.verdicts import Headline, write_headline
from workspaces.pages.guard import PageRequest

MARGIN = 1.15
"""An axis ends this much beyond the furthest end that stands on it."""
STATE_TONES = {
    "running": "info",
    "promoted": "ok",
    "rolled_back": "bad",
    "stopped": "",
    "superseded": "",
    "futile": "",
}


def select_experiments(request: PageRequest) -> QuerySet[Experiment]:
    found: QuerySet[Experiment] = (
        Experiment.objects.for_workspace(request.workspace)
        .select_related("registered_model", "group", "promoted_version__registered_model")
        .prefetch_related("variants__version__registered_model", "phases")
    )
    return found


def show_lines(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """What a table of experiments shows, their differences on one axis."""
    ends = [abs(end) for one in experiments for end in (one.low, one.high) if end is not None]
    reach = max(ends, default=1.0) * MARGIN or 1.0
    lines = [
        {
            "experiment": one,
            "headline": find_headline(one),
            "tone": STATE_TONES[one.state],
            "interval_tone": find_tone(one),
            "share": one.log_e_plus / math.log(one.promote_e),
        }
        for one in experiments
    ]
    return {"lines": lines, "reach": reach, "left": -reach}


def find_headline(experiment: Experiment) -> Headline | None:
    names = name_variants(experiment.variants.all())
    if len(names) < len(Arm):
        return None
    return write_headline(experiment, names[Arm.TREATMENT], names[Arm.CONTROL])


def find_tone(experiment: Experiment) -> str:
    if experiment.low is None or experiment.high is None:
        return ""
    return "ok" if experiment.low > 0 else "bad" if experiment.high < 0 else ""
