"""Writes and reads the log of an experiment: a row a look, and a row for whatever a person decided.

`experiments`, `looks` and `promotion` write; the chart and the log on the experiment's page, and the API, read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from django.db.models import QuerySet

from models_registry.models import BY_SOMEBODY, Experiment, Look, LookAction, Phase
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.storage.clock import database_now

EVERY = dt.timedelta(hours=1)
GROWTH = 1.05
"""A look is also kept once the units have grown by a twentieth: an experiment of minutes has a chart as well, and one
of a million units 300 rows more."""
LONGEST_REASON = 500
FIGURES = (
    "units_control",
    "units_treatment",
    "log_e_plus",
    "log_e_minus",
    "estimate",
    "low",
    "high",
    "plain_log_e_plus",
    "plain_log_e_minus",
    "plain_estimate",
    "plain_low",
    "plain_high",
    "sample_ratio_mismatch",
    "requests_control",
    "failed_control",
    "requests_treatment",
    "failed_treatment",
)


def record_look(*, by: Actor, experiment: Experiment, action: LookAction, reasons: Sequence[str]) -> Look:
    """Adds a row with the experiment's figures as they stand. Call inside the transaction of what is done."""
    phase = Phase.objects.filter(experiment=experiment).order_by("-number").first()
    assert phase is not None  # an experiment starts with one
    return Look.objects.create(
        workspace_id=experiment.workspace_id,
        experiment=experiment,
        action=action,
        by=by.name if action in BY_SOMEBODY else "",
        reasons=list(reasons),
        phase=phase.number,
        at=database_now(),
        treatment_share=phase.treatment_share,
        guardrails=experiment.guardrail_evidence,
        **{name: getattr(experiment, name) for name in FIGURES},
    )


def is_look_due(experiment: Experiment, now: dt.datetime | None = None) -> bool:
    """Whether a look at which nothing was done is kept: hourly, and while the units still grow fast."""
    last = Look.objects.filter(experiment=experiment).first()
    if last is None or (now or database_now()) - last.at >= EVERY:
        return True
    units = experiment.units_control + experiment.units_treatment
    return units > GROWTH * (last.units_control + last.units_treatment)


def check_reason(reason: str) -> str:
    """The reason of a person's decision without needless spaces. Raises InvalidInput where there is none."""
    given = " ".join(reason.split())
    if not given:
        raise InvalidInput(
            "A decision about an experiment has a reason.",
            faults=[FieldFault("reason", "is missing", "why, in a sentence: the experiment's log keeps it")],
        )
    return given[:LONGEST_REASON]


def list_looks(experiment: Experiment) -> QuerySet[Look]:
    """Newest first."""
    return Look.objects.filter(experiment=experiment)
