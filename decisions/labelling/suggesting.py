"""The auto-labeler: learns from people's labels of an agent, and suggests labels for what has no verdict.

What it suggests depends on the agent's actions (`decisions.labelling.targets`): the right option, what belongs first,
fields of an action, or the verdict of a decision or a whole episode. A suggestion is shown beside the decision with its
confidence; a person confirms it by labelling. It is neither feedback nor a label, so rewards and statistics do not see
it, and datasets only where they ask for suggestions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from django.db import transaction
from django.utils import timezone

from decisions.agents.choices import option_of
from decisions.agents.current import find_current_version, space_of
from decisions.errors import NothingToSuggest
from decisions.labelling.active import rank_by_doubt
from decisions.labelling.classifier import FEWEST_OF_AN_ACTION, TooFewLabels
from decisions.labelling.learning import Guess, Learnt, LearntPart, learn
from decisions.labelling.material import RIGHT, Row, make_answer, make_cases, options_at, read_judged, read_open
from decisions.labelling.targets import FIELDS, FIRST, OPTION, VERDICT, NothingToChoose, Part, Target, find_target
from decisions.models import (
    Agent,
    AgentVersion,
    AutoLabeler,
    Label,
    LabelQueue,
    LabelSuggestion,
    QueueStrategy,
    QueueSubject,
    Verdict,
)
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

SUGGEST_LABELS = "decisions.suggest_labels"
RELEARN_AFTER = 50
LONGEST_REASON = 300


def get_target(agent: Agent) -> Target:
    """What is suggested of the agent's decisions. Raises NothingToSuggest."""
    version = find_current_version(agent)
    if version is None:
        raise NothingToSuggest(f"Nothing can be suggested for {agent.slug}: it has no version, so it cannot decide.")
    try:
        return find_target(version)
    except NothingToChoose as error:
        raise NothingToSuggest(f"Nothing can be suggested for {agent.slug}: {error}.") from error


def find_auto_labeler(agent: Agent) -> AutoLabeler:
    """What it learnt last; where it never did, what it would suggest, or why nothing."""
    if (found := AutoLabeler.objects.filter(agent=agent).first()) is not None:
        return found
    try:
        target = get_target(agent)
    except NothingToSuggest as error:
        return AutoLabeler(agent=agent, reason=error.message)
    return AutoLabeler(agent=agent, suggests=target.kind, about=target.why[:LONGEST_REASON])


@transaction.atomic
def request_suggestions(*, by: Actor, agent: Agent) -> Job:
    """A job that trains the auto-labeler of the agent and suggests labels; the one that waits or works, where there is
    one. Raises NothingToSuggest."""
    get_target(agent)
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    if (job := find_under_way(agent)) is not None:
        return job
    job = enqueue_job(kind=SUGGEST_LABELS, workspace=by.workspace, payload={"agent_id": str(agent.id)})
    record_audit(by=by, action="suggestions.requested", target=f"agent:{agent.id}")
    return job


def find_under_way(agent: Agent) -> Job | None:
    """The job that trains the agent's auto-labeler, or waits to."""
    jobs = Job.objects.filter(workspace=agent.workspace_id, kind=SUGGEST_LABELS, payload={"agent_id": str(agent.id)})
    return jobs.filter(state__in=(JobState.QUEUED, JobState.RUNNING)).first()


def suggest_labels(
    agent: Agent, *, step: Callable[[], AbstractContextManager[object]] = transaction.atomic
) -> AutoLabeler:
    """Trains on the labels that are there, replaces the agent's suggestions, and ranks its active queues. Raises
    NothingToSuggest."""
    target = get_target(agent)
    labelled = [(row, answer) for row in read_judged(agent, target) if (answer := make_answer(target, row)) is not None]
    target = _choose_by_likeness(target, find_current_version(agent), [answer for _, answer in labelled])
    made = AutoLabeler(
        agent=agent,
        workspace_id=agent.workspace_id,
        suggests=target.kind,
        about=target.why[:LONGEST_REASON],
        labels=len(labelled),
        trained_at=timezone.now(),
    )
    suggestions: list[LabelSuggestion] = []
    learnt: Learnt | None = None
    try:
        learnt = learn(target, make_cases(agent, target, [row for row, _ in labelled]), [one for _, one in labelled])
    except TooFewLabels as error:
        made.reason = str(error)[:LONGEST_REASON]
    else:
        _note_promises(made, target, learnt)
        suggestions = _suggest(agent, target, learnt, made)
    with step():
        LabelSuggestion.objects.filter(agent=agent).delete()
        LabelSuggestion.objects.bulk_create(suggestions, ignore_conflicts=True, batch_size=1000)
        AutoLabeler.objects.update_or_create(
            agent=agent,
            defaults={
                field.name: getattr(made, field.name) for field in AutoLabeler._meta.fields if field.name != "agent"
            },
        )
    if learnt is not None:
        model = learnt

        def doubt(rows: Sequence[Row]) -> list[float]:
            return [guess.margin for guess in model.guess(make_cases(agent, target, rows))]

        rank_by_doubt(agent, doubt, step=step)
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
        with suppress(NothingToSuggest):
            request_suggestions(by=system(queue.workspace), agent=agent)


def _choose_by_likeness(target: Target, version: AgentVersion | None, answers: Sequence[Mapping[str, str]]) -> Target:
    """Options that come with each decision and are seldom the same are told apart by what they are like."""
    if target.kind != OPTION or version is None or version.options is not None or not answers:
        return target
    named = [answer[""] for answer in answers]
    again = sum(named.count(one) >= FEWEST_OF_AN_ACTION for one in set(named))
    return target if 2 * again >= len(set(named)) else Target(OPTION, (Part(items=True),))


def _note_promises(made: AutoLabeler, target: Target, learnt: Learnt) -> None:
    if target.kind == FIELDS:
        made.fields = [_note_field(part) for part in learnt.parts]
    made.actions = max(part.values for part in learnt.parts)
    promise = learnt.together
    if promise is None and len(learnt.parts) == 1:
        promise = learnt.parts[0].promise
    if promise is not None:
        made.accuracy, made.baseline = promise.accuracy, promise.baseline
        made.precision, made.coverage = promise.precision, promise.coverage
        made.threshold = promise.threshold if promise.precision is not None else None
    fields = any(one["precision"] is not None for one in made.fields)
    if made.precision is None and not fields:
        made.reason = "No confidence is high enough for the precision that suggestions need. More labels will help."


def _note_field(part: LearntPart) -> dict[str, Any]:
    promise = part.promise
    known = promise is not None and promise.precision is not None
    return {
        "field": part.part.name,
        "labels": part.labels,
        "accuracy": promise.accuracy if promise is not None else None,
        "baseline": promise.baseline if promise is not None else None,
        "threshold": promise.threshold if promise is not None and known else None,
        "precision": promise.precision if promise is not None else None,
        "coverage": promise.coverage if promise is not None else 0.0,
        "reason": part.reason or (f"All labels say {part.always}." if part.always is not None else ""),
    }


def _suggest(agent: Agent, target: Target, learnt: Learnt, made: AutoLabeler) -> list[LabelSuggestion]:
    rows = read_open(agent, target)
    guesses = learnt.guess(make_cases(agent, target, rows))
    found = [_make_suggestion(target, learnt, row, guess) for row, guess in zip(rows, guesses, strict=True)]
    suggestions = [one for one in found if one is not None]
    for one in suggestions:
        one.workspace_id, one.agent, one.made_at = agent.workspace_id, agent, made.trained_at
    made.suggested, made.looked_at = len(suggestions), len(rows)
    return suggestions


def _make_suggestion(target: Target, learnt: Learnt, row: Row, guess: Guess) -> LabelSuggestion | None:
    """None where it abstains, or where the decision could not do what it would suggest."""
    subject = {"episode_id" if row.is_episode else "decision_id": row.id}
    if target.kind == VERDICT:
        promise = learnt.parts[0].promise
        sure = guess.sure.get("")
        if promise is None or sure is None or sure < promise.threshold:
            return None
        said = guess.values[""]
        action = row.action if said == RIGHT and not row.is_episode else None
        return LabelSuggestion(**subject, verdict=said, action=action, confidence=sure)
    fields = _suggest_fields(target, learnt, row, guess)
    if learnt.together is not None and guess.together is not None and guess.together >= learnt.together.threshold:
        action = _make_action(target, row, guess.values)
        if action is not None:
            said = Verdict.CONFIRMED if action == row.action else Verdict.CORRECTED
            known = {"verdict": said, "action": action, "fields": fields, "confidence": guess.together}
            return LabelSuggestion(**subject, **known)
    if not fields:
        return None
    return LabelSuggestion(**subject, fields=fields, confidence=min(one["confidence"] for one in fields))


def _suggest_fields(target: Target, learnt: Learnt, row: Row, guess: Guess) -> list[dict[str, Any]]:
    """Those fields of which it is sure enough."""
    if target.kind != FIELDS:
        return []
    found = []
    for part in learnt.parts:
        name, promise = part.part.name, part.promise
        if name in guess.values and promise is not None and guess.sure[name] >= promise.threshold:
            value = guess.values[name]
            shown = value if part.part.items else json.loads(value)
            found.append({"field": name, "value": shown, "confidence": guess.sure[name]})
    return found


def _make_action(target: Target, row: Row, values: Mapping[str, str]) -> Any:
    """The suggested action: the agent's own where it chose the same. None where the decision could not do it."""
    version = row.version
    assert version is not None
    if target.kind == OPTION:
        return values[""] if values[""] in options_at(row) else None
    if target.kind == FIRST:
        if not isinstance(row.action, list) or values[""] in row.action[:1]:
            return row.action if isinstance(row.action, list) else None
        shown = row.options if row.options is not None else version.options or ()
        return list(dict.fromkeys([values[""], *row.action, *shown]))
    acted = row.action if isinstance(row.action, Mapping) else {}
    action = {name: value for name, value in acted.items() if name not in {"confidence", "reasoning"}}
    for part in target.parts:
        value = values[part.name]
        _put(action, part, value if part.items else json.loads(value))
    if option_of(version, action) == option_of(version, acted):
        return row.action
    state = row.state if isinstance(row.state, Mapping) else {}
    return None if space_of(version).action_faults(action, options=row.options, state=state) else action


def _put(action: dict[str, Any], part: Part, value: Any) -> None:
    """Leaves a field out that is null and is not there."""
    inner = action
    for name in part.path[:-1]:
        inner[name] = dict(inner[name]) if isinstance(inner.get(name), Mapping) else {}
        inner = inner[name]
    if value is not None:
        inner[part.path[-1]] = value
    elif part.path[-1] in inner:
        inner.pop(part.path[-1])
