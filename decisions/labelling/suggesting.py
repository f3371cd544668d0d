"""The auto-labeler: learns from people's labels of an agent, and suggests labels for decisions that have no verdict.

A suggestion is shown beside the decision with its confidence; a person confirms it by labelling. It is neither feedback
nor a label, so rewards and statistics do not see it, and datasets only where they ask for suggestions.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.errors import NotLabelledByChoice
from decisions.labelling.active import rank_by_doubt
from decisions.labelling.classifier import Fitted, TooFewLabels, fit
from decisions.labelling.wording import text_of
from decisions.models import (
    ActionSpaceKind,
    Agent,
    AutoLabeler,
    Label,
    LabelQueue,
    LabelSuggestion,
    QueueStrategy,
    QueueSubject,
)
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import THAT_COUNTS
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

SUGGEST_LABELS = "decisions.suggest_labels"
MOST_LABELS, MOST_SUGGESTED = 20_000, 5_000
"""It learns from so many of the newest labels, and looks at so many of the newest decisions without a verdict."""
RELEARN_AFTER = 50

# The newest label of each decision that waits for no other. One that only says that the action was wrong names no right
# one.
_LABELLED = f"""
SELECT d.state, coalesce(l.corrected_action, d.action) #>> '{{}}'
  FROM (SELECT DISTINCT ON (decision_id) decision_id, verdict, corrected_action FROM decisions_label
         WHERE workspace_id = %(workspace)s AND decision_id IS NOT NULL AND NOT pending
         ORDER BY decision_id DESC, id DESC LIMIT %(most)s) l
  JOIN decisions_decision d ON d.id = l.decision_id
 WHERE d.agent_id = %(agent)s AND d.{NOT_ERASED} AND (l.verdict = 'confirmed' OR l.corrected_action IS NOT NULL)
"""  # noqa: S608 - our own names
_WITHOUT_VERDICT = f"""
SELECT d.id, d.state, d.options FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND d.options IS NOT NULL AND d.{NOT_ERASED} AND {THAT_COUNTS} IS NULL
 ORDER BY d.id DESC LIMIT %(most)s
"""  # noqa: S608


@transaction.atomic
def request_suggestions(*, by: Actor, agent: Agent) -> Job:
    """A job that trains the auto-labeler of the agent and suggests labels; the one that waits or works, where there is
    one. Raises NotLabelledByChoice."""
    version = find_current_version(agent)
    if version is None or version.action_space != ActionSpaceKind.CHOICE:
        raise NotLabelledByChoice(f"{agent.slug} does not choose among options, and only options are suggested.")
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    payload = {"agent_id": str(agent.id)}
    under_way = Job.objects.for_workspace(by.workspace).filter(
        kind=SUGGEST_LABELS, payload=payload, state__in=(JobState.QUEUED, JobState.RUNNING)
    )
    if (job := under_way.first()) is not None:
        return job
    job = enqueue_job(kind=SUGGEST_LABELS, workspace=by.workspace, payload=payload)
    record_audit(by=by, action="suggestions.requested", target=f"agent:{agent.id}")
    return job


def suggest_labels(
    agent: Agent, *, step: Callable[[], AbstractContextManager[object]] = transaction.atomic
) -> AutoLabeler:
    """Trains on the labels that are there, replaces the agent's suggestions, and ranks its active queues."""
    known = {"workspace": agent.workspace_id, "agent": agent.id}
    with connection.cursor() as cursor:
        cursor.execute(_LABELLED, {**known, "most": MOST_LABELS})
        labelled = [(text_of(_loaded(state)), action) for state, action in cursor.fetchall()]
    made = AutoLabeler(agent=agent, workspace_id=agent.workspace_id, labels=len(labelled), trained_at=timezone.now())
    suggestions: list[LabelSuggestion] = []
    fitted: Fitted | None = None
    try:
        fitted = fit([text for text, _ in labelled], [action for _, action in labelled])
    except TooFewLabels as error:
        made.reason = str(error)
    else:
        suggestions = _suggest(agent, fitted, made)
    with step():
        LabelSuggestion.objects.filter(agent=agent).delete()
        LabelSuggestion.objects.bulk_create(suggestions, ignore_conflicts=True, batch_size=1000)
        AutoLabeler.objects.update_or_create(
            agent=agent,
            defaults={
                field.name: getattr(made, field.name) for field in AutoLabeler._meta.fields if field.name != "agent"
            },
        )
    if fitted is not None:
        rank_by_doubt(agent, fitted.classifier, step=step)
    return made


def learn_when_due(queue: LabelQueue) -> None:
    """Asks the auto-labeler of an active queue's agent to learn, once RELEARN_AFTER labels are new."""
    if queue.subject != QueueSubject.DECISION:
        return
    if queue.strategy != QueueStrategy.UNCERTAINTY or "agent" not in queue.filters:
        return
    agent = Agent.objects.for_workspace(queue.workspace).filter(slug=queue.filters["agent"]).first()
    learnt = AutoLabeler.objects.filter(agent=agent).first()
    labels = Label.objects.for_workspace(queue.workspace).filter(pending=False, decision__isnull=False)
    if learnt is not None:
        labels = labels.filter(id__gt=uuid7_bound(learnt.trained_at))
    if agent is not None and labels[:RELEARN_AFTER].count() >= RELEARN_AFTER:
        with suppress(NotLabelledByChoice):
            request_suggestions(by=system(queue.workspace), agent=agent)


def _suggest(agent: Agent, fitted: Fitted, made: AutoLabeler) -> list[LabelSuggestion]:
    made.actions, made.precision, made.coverage = len(fitted.classifier.actions), fitted.precision, fitted.coverage
    if fitted.precision is None:
        made.reason = "No confidence is high enough for the precision that suggestions need. More labels will help."
        return []
    made.threshold = fitted.threshold
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_VERDICT, {"agent": agent.id, "most": MOST_SUGGESTED})
        rows: list[tuple[uuid.UUID, Any, Any]] = [
            (row, _loaded(state), _loaded(options)) for row, state, options in cursor.fetchall()
        ]
    found = fitted.suggest([text_of(state) for _, state, _ in rows])
    suggestions = [
        LabelSuggestion(
            workspace_id=agent.workspace_id,
            agent=agent,
            decision_id=row,
            action=one.action,
            confidence=min(1.0, max(0.0, one.confidence)),
            made_at=made.trained_at,
        )
        for (row, _, options), one in zip(rows, found, strict=True)
        if one is not None and one.action in options
    ]
    made.suggested, made.looked_at = len(suggestions), len(rows)
    return suggestions


def _loaded(field: Any) -> Any:
    """Django's raw cursors leave jsonb as text."""
    return json.loads(field) if isinstance(field, str) else field
