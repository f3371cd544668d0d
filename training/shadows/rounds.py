"""The rounds of shadows: each asks a candidate about what was decided meanwhile, draws a point, and judges.

    unasked decisions → batches of questions → answers, fenced → figures → a point → enough? → told, or a canary

The clock queues a round where there is something to do (`training.tasks`). A round asks at most as many questions as
`RECKONER_SHADOW_PER_MINUTE` allows for its time. One that was killed goes on where its last batch ended.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.models import Shadow, ShadowPoint, ShadowState, ShadowThen
from jobs.context import JobContext
from jobs.errors import JobCancelled
from jobs.services import enqueue_job
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import prepare_to_serve
from models_registry.experiments.services import start_experiment
from models_registry.models import GateKind, GateVerdict
from training.evaluation.log_gate import describe_estimate, is_finite
from training.shadows import ANSWER
from training.shadows.asking import ask_candidate, find_unasked, store_answers
from training.shadows.figures import Figures, measure_shadow
from training.shadows.rule import Judged, is_look_due, judge
from workspaces.access.actors import system
from workspaces.access.services import record_audit
from workspaces.errors import ReckonerError

BATCH = 32
EVERY = dt.timedelta(hours=1)
GROWTH = 1.05
"""A point is drawn every hour, and once the answers have grown by a twentieth."""
CANARY = ExperimentPlan(treatment_share=0.05, ramp=(0.25, 0.5), attribution_window_seconds=None)
"""The first step of the experiment that a shadow opens, and the steps after it."""


def queue_rounds() -> int:
    """Queues a round of every running shadow that has none under way and something to do. Returns how many."""
    running = _select().filter(state=ShadowState.RUNNING).order_by("id")
    return sum(queue_round(shadow) for shadow in running if _has_work(shadow))


@transaction.atomic
def queue_round(shadow: Shadow) -> bool:
    """False where the shadow is over, or has a round under way."""
    rows = Shadow.objects.select_for_update(skip_locked=True, of=("self",)).select_related("job", "workspace")
    locked = rows.filter(id=shadow.id, state=ShadowState.RUNNING).first()
    if locked is None or (locked.job is not None and not locked.job.is_terminal):
        return False
    locked.job = enqueue_job(kind=ANSWER, workspace=locked.workspace, payload={"shadow": str(locked.id)})
    locked.save(update_fields=["job"])
    return True


def _select() -> QuerySet[Shadow]:
    return Shadow.objects.select_related("agent", "version__registered_model", "version__artifact", "workspace")


def _has_work(shadow: Shadow) -> bool:
    return _wants_canary(shadow) or _is_point_due(shadow) or bool(find_unasked(shadow, 1))


def _wants_canary(shadow: Shadow) -> bool:
    return shadow.enough_at is not None and shadow.then == ShadowThen.CANARY


def _is_point_due(shadow: Shadow) -> bool:
    asked = shadow.answered + shadow.failed
    last = shadow.points.order_by("-id").first()
    if last is None:
        return asked > 0
    before = last.answered + last.failed
    return timezone.now() - last.at >= EVERY or (asked >= before * GROWTH and asked > before)


def answer_shadow(context: JobContext) -> dict[str, Any] | None:
    """The job: one round. Raises JobCancelled."""
    shadow = _select().filter(id=context.payload["shadow"]).first()
    if shadow is None or shadow.state != ShadowState.RUNNING:
        return {"asked": 0}
    asked = _ask_all(context, shadow)
    shadow.refresh_from_db()
    if _is_point_due(shadow):
        _draw_point(context, shadow)
    if _wants_canary(shadow):
        _open_canary(context, shadow)
    return {"asked": asked}


def _ask_all(context: JobContext, shadow: Shadow) -> int:
    """Returns how many decisions it asked about."""
    most = max(1, int(settings.SHADOW_PER_MINUTE * settings.SHADOW_SECONDS / 60))
    todo = find_unasked(shadow, most)
    for start in range(0, len(todo), BATCH):
        if context.cancel_requested():
            raise JobCancelled
        batch = todo[start : start + BATCH]
        answered = ask_candidate(shadow, batch)
        with context.fenced():
            store_answers(shadow, answered, read_until=batch[-1].recorded_at)
        if answered.nobody:  # the next ones would fail, too; those wait for the next round
            return start + len(batch)
        context.progress((start + len(batch)) / len(todo), f"{start + len(batch):,} of {len(todo):,} decisions")
    return len(todo)


def _draw_point(context: JobContext, shadow: Shadow) -> None:
    """And judges, where that is due."""
    figures = measure_shadow(shadow)
    due = shadow.enough_at is None and is_look_due(
        looks=shadow.looks, answered=shadow.answered, rewarded=len(figures.rows), least=shadow.min_decisions
    )
    judged = None
    if due and figures.gate is not None:
        judged = judge(figures.gate, look=shadow.looks + 1, answered=shadow.answered, failed=shadow.failed)
    with context.fenced():
        _note(shadow, figures, judged)


def _note(shadow: Shadow, figures: Figures, judged: Judged | None) -> None:
    now = timezone.now()
    gate, agreement = figures.gate, figures.agreement
    known = gate is not None and is_finite(gate.difference)
    point = ShadowPoint(
        workspace_id=shadow.workspace_id,
        shadow=shadow,
        at=now,
        answered=shadow.answered,
        failed=shadow.failed,
        rewarded=len(figures.rows),
    )
    if agreement is not None:
        point.agreement = agreement.mean
        if agreement.clusters > 1:
            point.agreement_low, point.agreement_high = agreement.low, agreement.high
    point.tau = figures.tau
    if figures.untold:
        point.refusals = [figures.untold]
    if gate is not None:
        point.refusals = list(judged.refusals if judged is not None else gate.refusals)
        point.logged = gate.estimates.logged.mean
        if math.isfinite(gate.estimates.effective_sample_size):
            point.effective_sample_size = gate.estimates.effective_sample_size
        if known:
            point.estimate, point.low, point.high = gate.difference.mean, gate.difference.low, gate.difference.high
    if judged is not None:
        shadow.looks += 1
        point.look, point.passed = shadow.looks, judged.passed
        point.lower = judged.lower if math.isfinite(judged.lower) else None
    point.save()
    if judged is not None and judged.passed:
        shadow.enough_at, shadow.enough_says = now, _say(point)
        _write_verdict(shadow, figures, point)
        details = {"name": str(shadow.version), "says": shadow.enough_says}
        by = system(shadow.workspace)
        record_audit(by=by, action="shadow.sufficed", target=f"shadow:{shadow.id}", details=details)
    shadow.save(update_fields=["looks", "enough_at", "enough_says"])


def _say(point: ShadowPoint) -> str:
    return (
        f"In the shadow it is estimated to earn {point.estimate:+.3f} [{point.low:+.3f}, {point.high:+.3f}] more than"
        f" what acted, lower bound {point.lower:+.3f} at look {point.look}, by {point.rewarded:,} rewarded of"
        f" {point.answered:,} answered decisions worth {point.effective_sample_size:,.0f} of its own; it agrees with"
        f" {point.agreement:.1%} of them."
    )


def _write_verdict(shadow: Shadow, figures: Figures, point: ShadowPoint) -> None:
    """The newest verdict by logged decisions of the version, where its page and experiments look for one."""
    assert figures.gate is not None
    acted = {row.version for row in figures.rows}
    acts = find_current_version(shadow.agent)
    assert acts is not None
    GateVerdict.objects.create(
        workspace_id=shadow.workspace_id,
        version=shadow.version,
        against_id=acted.pop() if len(acted) == 1 else None,
        kind=GateKind.OFF_POLICY,
        passed=True,
        estimate=point.estimate,
        low=point.low,
        high=point.high,
        details=describe_estimate(figures.gate, figures.rows) | acts.acting | {"shadow": str(shadow.id)},
    )


def _open_canary(context: JobContext, shadow: Shadow) -> None:
    """Once: the experiment and the shadow's end are one transaction. What keeps it from opening is told, and it is
    tried again in the next round."""
    try:
        prepare_to_serve(shadow.version)  # what takes long is done before the transaction
        with context.fenced(), transaction.atomic():
            locked = Shadow.objects.select_for_update().get(id=shadow.id)
            if locked.state != ShadowState.RUNNING:
                return
            experiment = start_experiment(
                by=system(shadow.workspace),
                treatment=shadow.version,
                plan=CANARY,
                reason=shadow.enough_says,
                name=f"canary of {shadow.version}",
            )
            locked.experiment, locked.state, locked.ended_at = experiment, ShadowState.CANARY, timezone.now()
            locked.waits, locked.end_reason = "", "The evidence sufficed: a canary opened."
            locked.save(update_fields=["experiment", "state", "ended_at", "waits", "end_reason"])
    except ReckonerError as error:
        with context.fenced():
            Shadow.objects.filter(id=shadow.id, state=ShadowState.RUNNING).update(waits=error.message[:500])
