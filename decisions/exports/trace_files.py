"""Traces as ToolBox keeps them: a JSON file each, in folders by date, and the tasks of its checkpoints.

`decisions.importers.toolbox` reads the same. A trace is an episode, or a decision without one. Times are UTC and, as
there, without an offset. The ledger is read page by page, oldest first; what was erased is never written.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Q, QuerySet

from decisions.agents.prompts import as_text
from decisions.importers.toolbox_tasks import PREFIX, STEP
from decisions.models import Agent, Decision, Episode, Feedback, FeedbackSource, Step, StepKind
from decisions.models.tombstones import ERASED_HASH
from decisions.models.verdicts import VERDICT, list_current_feedback

PAGE = 200
LONGEST_NAME = 100
CHECKPOINTS = "checkpoints"
_RIGHT = {"confirmed": True, "corrected": False, "overridden": False}


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """`since` ≤ its time < `until`. `labelled`: only traces that have a label. `most`: None for all of them."""

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    labelled: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class TraceFile:
    """`path` is relative, with a slash: 2025-11-02/0a1b2c.json."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Told:
    """What is known of one trace."""

    name: str
    session: str
    moment: dt.datetime
    query: str
    response: str
    decisions: Sequence[Decision]
    steps: Sequence[Step]
    feedback: Sequence[Feedback]
    episode: Episode | None = None


def write_traces(agent: Agent, choice: TraceChoice = TraceChoice()) -> Iterator[TraceFile]:
    """One file for each trace, then one with the tasks of checkpoints where the agent has any."""
    paths: set[str] = set()
    for told in _read_traces(agent, choice):
        if choice.most is not None and len(paths) >= choice.most:
            return
        whole = _write_trace(told)
        if choice.labelled and whole["label"] is None:
            continue
        path = f"{told.moment:%Y-%m-%d}/{_file_name(told.name)}"
        if path in paths:  # an episode and a decision of one day may have the same name
            path = f"{path}-{(told.episode or told.decisions[0]).id.hex}"
        paths.add(path)
        yield TraceFile(f"{path}.json", _encode(whole))
    if (state := read_task_state(agent, choice)) and not choice.labelled:
        checkpoint = {"agent_name": agent.slug, "session_data": {}, "task_state": state}
        yield TraceFile(f"{CHECKPOINTS}/{_file_name(agent.slug)}.json", _encode(checkpoint))


def read_task_state(agent: Agent, choice: TraceChoice = TraceChoice()) -> dict[str, Any]:
    """The tasks of the agent's checkpoints, each as it stood last."""
    names = [STEP.format(status) for status in ("created", "completed", "failed")]
    steps = Step.objects.filter(
        _between("started_at", choice),
        workspace=agent.workspace_id,
        episode__agent=agent,
        episode__external_id__startswith=PREFIX,
        kind=StepKind.SPAN,
        name__in=names,
    )
    last: dict[str, dict[str, Any]] = {}
    for step in steps.exclude(content_hash=ERASED_HASH).order_by("id").iterator(PAGE):
        if step.external_id and step.attributes is not None:
            ended = step.success is not None
            if not ended and step.external_id in last:
                continue  # it had ended by another checkpoint
            last[step.external_id] = step.attributes
    state: dict[str, Any] = {}
    for name, told in last.items():
        group, _, key = name.partition("/")
        if group:
            state.setdefault(group, []).append(told)
        else:
            state[key] = told
    return state


def _between(name: str, choice: TraceChoice) -> Q:
    found = Q()
    if choice.since is not None:
        found &= Q(**{f"{name}__gte": choice.since})
    if choice.until is not None:
        found &= Q(**{f"{name}__lt": choice.until})
    return found


def _read_traces(agent: Agent, choice: TraceChoice) -> Iterator[_Told]:
    episodes = Episode.objects.filter(_between("started_at", choice), workspace=agent.workspace_id, agent=agent)
    for page in _pages(episodes.exclude(external_id__startswith=PREFIX).prefetch_related("feedback")):
        there = [one for one in page if not one.is_erased]
        decisions = _group(_decisions(agent).filter(episode__in=there).order_by("id"), "episode_id")
        steps = _group(_steps(agent, Q(episode__in=there)), "episode_id")
        for one in there:
            yield _tell_episode(one, decisions[one.id], _in_order(steps[one.id]))
    for page in _pages(_decisions(agent).filter(_between("observed_at", choice), episode=None)):
        own = _group(_steps(agent, Q(decision__in=page)), "decision_id")
        for decision in page:
            if not decision.is_erased:
                yield _tell_decision(decision, _in_order(own[decision.id]))


def _decisions(agent: Agent) -> QuerySet[Decision]:
    found: QuerySet[Decision] = Decision.objects.filter(workspace=agent.workspace_id, agent=agent)
    return found.prefetch_related("feedback").defer("token_ids", "logprobs")


def _steps(agent: Agent, which: Q) -> QuerySet[Step]:
    found = Step.objects.filter(which, workspace=agent.workspace_id).exclude(content_hash=ERASED_HASH)
    return found.order_by("started_at", "number", "id")


def _in_order(steps: list[Step]) -> list[Step]:
    """As the sender numbered them, where it numbered all of them together; else as they began."""
    numbers = [step.number for step in steps]
    if None in numbers or len(set(numbers)) != len(numbers):
        return steps
    return sorted(steps, key=lambda step: step.number or 0)


def _pages(found: QuerySet[Any]) -> Iterator[list[Any]]:
    """Oldest first, by key: no cursor stays open while a client reads."""
    last = uuid.UUID(int=0)
    while page := list(found.filter(id__gt=last).order_by("id")[:PAGE]):
        yield page
        last = page[-1].id


def _group(rows: Iterable[Any], name: str) -> dict[uuid.UUID, list[Any]]:
    found: dict[uuid.UUID, list[Any]] = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return found


def _tell_episode(episode: Episode, decisions: Sequence[Decision], steps: Sequence[Step]) -> _Told:
    there = [one for one in decisions if not one.is_erased]
    return _Told(
        name=episode.external_id or episode.trace or str(episode.id),
        session=episode.session,
        moment=there[0].observed_at if there else episode.started_at,
        query=episode.query or (_query_of(there[0]) if there else ""),
        response=episode.final_response or (as_text(there[-1].action) if there else ""),
        decisions=there,
        steps=steps,
        feedback=list_current_feedback(episode),
        episode=episode,
    )


def _tell_decision(decision: Decision, steps: Sequence[Step]) -> _Told:
    return _Told(
        name=decision.external_id or str(decision.id),
        session="",
        moment=decision.observed_at,
        query=_query_of(decision),
        response=as_text(decision.action),
        decisions=[decision],
        steps=steps,
        feedback=(),
    )


def _query_of(decision: Decision) -> str:
    state = decision.state
    only = state.get("query") if isinstance(state, dict) and set(state) == {"query"} else None
    return only if isinstance(only, str) else as_text(state)


def _write_trace(told: _Told) -> dict[str, Any]:
    """ToolBox's fields and no other: it refuses a trace that has more."""
    said = _read_feedback(told)
    label, by_person = _label_of(told, said)
    tasks = {status: _tasks(told.steps, status) for status in ("created", "completed", "failed")}
    return {
        "trace_id": told.name,
        "session_id": told.session,
        "timestamp": _time(told.moment),
        "user_query": told.query,
        "tool_calls": [_write_call(step) for step in told.steps if step.kind == StepKind.TOOL_CALL],
        "reasoning_steps": [_write_thought(step) for step in told.steps if step.kind == StepKind.REASONING],
        **{f"tasks_{status}": found for status, found in tasks.items()},
        "final_response": told.response,
        "total_tokens_in": _total(told, "tokens_in"),
        "total_tokens_out": _total(told, "tokens_out"),
        "total_cost": float(_total(told, "cost")),
        "execution_duration_ms": _duration(told),
        "llm_calls_count": (told.episode.llm_calls if told.episode is not None else None) or _count_calls(told.steps),
        "label": label,
        "reward_score": said.get("reward"),
        "manual_review": by_person,
        "review_notes": str(said.get("review_notes") or ""),
    }


def _write_call(step: Step) -> dict[str, Any]:
    return {
        "tool_name": step.name,
        "arguments": step.arguments if step.arguments is not None else {},
        "result": step.result if step.result is not None else "",
        "success": step.success is not False,
        "duration_ms": step.duration_ms or 0.0,
        "error": step.error or None,
        "timestamp": _time(step.started_at),
    }


def _write_thought(step: Step) -> dict[str, Any]:
    return {
        "step_type": step.reasoning_type,
        "content": step.content,
        "confidence": step.confidence or 0.0,
        "insights": step.insights or [],
        "issues": step.issues or [],
    }


def _tasks(steps: Sequence[Step], status: str) -> list[Any]:
    return [
        step.attributes
        for step in steps
        if step.kind == StepKind.SPAN and step.name == STEP.format(status) and step.attributes is not None
    ]


def _read_feedback(told: _Told) -> dict[str, Any]:
    """By metric, what counts: of the episode before what is said of its decisions, the last of them first."""
    found: dict[str, Any] = {}
    for own in (*map(list_current_feedback, told.decisions), told.feedback):
        found |= {one.metric: one.value for one in reversed(own)}
    return found


def _label_of(told: _Told, said: dict[str, Any]) -> tuple[bool | None, bool]:
    """Whether the trace was right, and whether a person said so. A verdict on the episode says it, else it is right if
    all its judged decisions were confirmed; where nobody gave one, the label that the trace brought."""
    found = [_verdict_of(told.feedback)]
    if found == [None]:
        found = [_verdict_of(list_current_feedback(one)) for one in told.decisions]
    known = [one for one in found if one is not None and one.value in _RIGHT]
    if known:
        return all(_RIGHT[one.value] for one in known), any(one.source == FeedbackSource.HUMAN for one in known)
    label = said.get("label")
    return (label if isinstance(label, bool) else None), False


def _verdict_of(feedback: Sequence[Feedback]) -> Feedback | None:
    return next((one for one in feedback if one.metric == VERDICT), None)


def _total(told: _Told, name: str) -> Any:
    said = getattr(told.episode, name) if told.episode is not None else None
    return said if said is not None else sum(getattr(one, name) or 0 for one in told.decisions)


def _duration(told: _Told) -> float:
    said = told.episode.duration_ms if told.episode is not None else None
    return float(said if said is not None else sum(one.latency_ms or 0.0 for one in told.decisions))


def _count_calls(steps: Sequence[Step]) -> int:
    return sum(step.kind == StepKind.LLM_CALL for step in steps)


def _time(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat()


def _encode(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _file_name(name: str) -> str:
    """The name where it is a safe one, else what is left of it and a digest, so that no two are the same."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:LONGEST_NAME]
    if plain == name:
        return name
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")
