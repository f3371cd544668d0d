"""Writes exposures: which arm of an experiment a unit got, with its first decision or its first request that nobody
answered."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from django.db import transaction

from decisions.gateway.questions import Question, Reply
from models_registry.calls.records import Ending, close_calls
from models_registry.models import Arm, CallState, Exposure, FailedRequest
from workspaces.access.actors import Actor


def record_exposures(by: Actor, questions: Sequence[Question], now: dt.datetime) -> dict[str, uuid.UUID]:
    """The exposure of each unit in the phase that it meets, made by its first decision: two queries for a batch."""
    exposed = {question.unit: question for question in reversed(questions) if question.route.phase is not None}
    if not exposed:
        return {}
    phases = {question.route.phase for question in exposed.values()}
    # In one order everywhere: two batches with the same units would otherwise wait for each other.
    rows = [_exposure(by, exposed[unit], now) for unit in sorted(exposed)]
    Exposure.objects.bulk_create(rows, ignore_conflicts=True)
    # A unit is in the lane of one experiment, so it has one exposure in all the phases that are open now.
    return dict(Exposure.objects.filter(phase__in=phases, unit__in=exposed).values_list("unit", "id"))


@transaction.atomic
def record_failures(by: Actor, unanswered: Sequence[Reply], answered: Sequence[Reply], now: dt.datetime) -> None:
    """Closes the calls of a request of which nothing is recorded. What an experiment's units asked in vain counts for
    the arm assigned: there is no decision that could tell of it."""
    questions = [one.question for one in unanswered]
    endings = [
        Ending(
            one.question.id,
            CallState.FAILED,
            backend=one.backend,
            error=one.failures or one.error or "",
            unusable=one.unusable,
        )
        for one in unanswered
    ]
    beside = "Another item of the same request had no answer."
    endings += [Ending(one.question.id, CallState.FAILED, backend=one.backend, error=beside) for one in answered]
    close_calls(by=by, endings=endings, now=now)
    exposures = record_exposures(by, questions, now)
    FailedRequest.objects.bulk_create(
        FailedRequest(workspace=by.workspace, exposure_id=exposures[question.unit], failed_at=now)
        for question in questions
        if question.unit in exposures
    )


def _exposure(by: Actor, question: Question, now: dt.datetime) -> Exposure:
    route = question.route
    by_control = question.fallback and question.side.is_as(question.control)
    assert route.phase is not None
    assert route.arm is not None
    assert route.assignment_probability is not None
    return Exposure(
        workspace=by.workspace,
        experiment_id=route.phase.experiment_id,
        phase=route.phase,
        unit=question.unit,
        arm=route.arm,
        assignment_probability=route.assignment_probability,
        version=question.served,
        served_arm=Arm.CONTROL if by_control else route.arm,
        fallback=question.fallback,
        exposed_at=now,
    )
