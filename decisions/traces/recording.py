"""Writes the spans of a request into the ledger as episodes, steps, decisions and feedback, in one transaction.

The order of arrival does not matter. Ids follow from the spans, so repeats are not stored again; an episode's question
and answer are found again among its steps after each request.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec
from django.db import IntegrityError, transaction
from django.utils import timezone

from decisions.agents.current import CurrentAgent, find_agents
from decisions.agents.services import AgentSetup, create_agent
from decisions.errors import Erased
from decisions.ingest.batches import COST_GRAIN, check_id, content_hash
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import ItemError, fault_of, rounded
from decisions.ingest.episodes import Named, ensure_episodes
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.ingest.steps import STEP_TABLE
from decisions.ingest.writer import Row, columns_of, write_within
from decisions.models import CHATTING, ActionSpaceKind, Agent, Episode, Step
from decisions.models.finish_reasons import read_finish_reason
from decisions.models.tombstones import ERASED_HASH
from decisions.traces.above import Key, find_above, find_roots, move_to_roots, service_of
from decisions.traces.dialects import translate_span
from decisions.traces.episodes import refresh_episodes
from decisions.traces.links import find_answers, link_traces
from decisions.traces.mapping import MappedDecision, MappedSpan, is_of_an_agent, read_span, with_agent
from decisions.traces.refusals import Refusal
from decisions.traces.spans import Span, fault_of_span
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, InvalidInput

MOST_AGENTS = 200
"""Agents in a workspace, beyond which traces make no more: a name that changes with each request is a mistake."""
TEMPLATE = "{{ input }}"
SHOWN, LONGEST_SHOWN = 5, 40
"""How many reasons and names an answer shows, and how much of a name."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """`refused`: spans that were not kept. `warnings`: what of a kept span was not usable. `left_out`: the names of
    those that tell of no agent."""

    refused: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Ready:
    """A span that is to be written. `service` is whose it is where nothing above it names an agent."""

    mapped: MappedSpan
    digest: bytes
    service: str
    decision: uuid.UUID | None = None
    without_arguments: bool = False


@transaction.atomic
def record_spans(*, by: Actor, spans: Sequence[Span]) -> Recorded:
    """Spans that tell of no agent are left out, and counted: a trace holds HTTP and SQL as well."""
    now = timezone.now()
    spans = [translate_span(span) for span in spans]
    refused: list[Refusal] = []
    warnings: list[Refusal] = []
    left_out = [span.name for span in spans if not is_of_an_agent(span)]
    ready = _read(by, spans, now, refused)
    ready, agents = _find_agents(by, ready, refused)
    if not ready:
        return Recorded(tuple(refused), left_out=tuple(left_out))
    episodes, gone = _find_episodes(by, ready, agents)
    refused += [_erased(one) for one in ready if one.mapped.trace in gone]
    ready = [one for one in ready if one.mapped.trace not in gone]
    ready = _take_answers(by, ready, refused)
    ready = _record_decisions(by, ready, agents, refused, warnings)
    rows = [_step_row(by, one, episodes[one.mapped.trace], now) for one in ready]
    written = write_within(STEP_TABLE, columns_of(rows))
    refused += [_conflict(one) for one in ready if one.mapped.step.id in written.conflicts]
    refused += [_unusable(one) for one in ready if one.mapped.step.id in written.foreign]
    _record_feedback(by, ready, episodes, warnings)
    framed = refresh_episodes([one.mapped for one in ready], episodes, agents)
    link_traces(by, episodes.values(), framed)
    _move_to_roots(by, ready, episodes, agents, now)
    return Recorded(tuple(refused), tuple(warnings), tuple(left_out))


def _read(by: Actor, spans: Sequence[Span], now: dt.datetime, refused: list[Refusal]) -> list[_Ready]:
    """Spans that are new, once each."""
    found: dict[uuid.UUID, _Ready] = {}
    sent: dict[uuid.UUID, Span] = {}
    for span in spans:
        if fault := fault_of_span(span):
            refused.append(Refusal(span.span_id, fault))
        elif is_of_an_agent(span):
            mapped = read_span(span)
            if faults := check_id(mapped.step.id, now):
                refused.append(Refusal(span.span_id, f"its start is out of range: {faults[0].expected}"))
                continue
            one = _Ready(mapped, content_hash(mapped), service_of(span))
            sent.setdefault(mapped.step.id, span)
            if found.setdefault(mapped.step.id, one).digest != one.digest:
                refused.append(_conflict(one))
    known = Step.objects.filter(id__in=found).values_list("id", "workspace_id", "content_hash")
    for step_id, workspace_id, digest in known:
        one = found.pop(step_id)
        if workspace_id == by.workspace.id and bytes(digest) == ERASED_HASH:
            refused.append(_erased(one))
        elif workspace_id != by.workspace.id:
            refused.append(_unusable(one))
        elif bytes(digest) != one.digest:
            refused.append(_conflict(one))
    return _give_agents(by, found, sent, find_above(spans))


def _give_agents(
    by: Actor, found: Mapping[uuid.UUID, _Ready], sent: Mapping[uuid.UUID, Span], above: Mapping[Key, str]
) -> list[_Ready]:
    """Each of the agent that it names, or that what lies above it names, here or as it was recorded before."""
    agents = {step_id: above[one.mapped.trace, one.mapped.step.external_id] for step_id, one in found.items()}
    roots = find_roots(by, {found[step_id].mapped.trace for step_id, agent in agents.items() if not agent})
    ready = []
    for step_id, one in found.items():
        agent = agents[step_id] or roots.get(one.mapped.trace, one.service)
        same = agent == one.mapped.agent
        ready.append(one if same else replace(one, mapped=with_agent(one.mapped, sent[step_id], agent)))
    return ready


def _move_to_roots(
    by: Actor,
    ready: Sequence[_Ready],
    episodes: Mapping[str, uuid.UUID],
    agents: Mapping[str, CurrentAgent],
    now: dt.datetime,
) -> None:
    """What was recorded of these traces before their roots were. The episodes are locked: a root or its child comes
    second, and whichever does moves the child."""
    roots = find_roots(by, {one.mapped.trace for one in ready})
    services = {(one.mapped.trace, one.service) for one in ready}
    moves = [(episodes[trace], service, roots[trace]) for trace, service in sorted(services) if trace in roots]
    moves = [move for move in moves if move[1] != move[2]]
    missing = {slug for _, *slugs in moves for slug in slugs} - agents.keys()
    move_to_roots(by, moves, {**agents, **(find_agents(by, missing) if missing else {})}, now)


def _conflict(one: _Ready) -> Refusal:
    return Refusal(one.mapped.step.external_id, "it was already recorded with different content")


def _unusable(one: _Ready) -> Refusal:
    """It stands in another workspace, which is none of the sender's business."""
    return Refusal(one.mapped.step.external_id, "its ids cannot be used")


def _erased(one: _Ready) -> Refusal:
    return Refusal(one.mapped.step.external_id, "its content was erased")


# Agents and episodes


def _find_agents(
    by: Actor, ready: Sequence[_Ready], refused: list[Refusal]
) -> tuple[list[_Ready], Mapping[str, CurrentAgent]]:
    """The agents that spans name, made on first sight; and the spans whose agent could be made."""
    slugs = {one.mapped.agent for one in ready}
    offering = {d.agent for one in ready for d in one.mapped.decisions if d.options is not None}
    slugs |= {d.agent for one in ready for d in one.mapped.decisions}
    agents = find_agents(by, slugs)
    missing = sorted(slugs - set(agents))
    reasons: dict[str, str] = {}
    if missing:
        left = MOST_AGENTS - Agent.objects.for_workspace(by.workspace).count()
        for slug in missing:
            if left <= 0:
                reasons[slug] = f"its agent {slug!r} is unknown, and there are {MOST_AGENTS} agents already"
                continue
            left -= 1
            space = ActionSpaceKind.CHOICE if slug in offering else ActionSpaceKind.TEXT
            prompt, completion = (None, None) if space in CHATTING else (4096, 1024)
            setup = AgentSetup(
                prompt_template=TEMPLATE,
                action_space=space,
                max_prompt_tokens=prompt,
                max_completion_tokens=completion,
            )
            try:
                with transaction.atomic():
                    create_agent(by=by, slug=slug, name=slug.replace("-", " ").capitalize(), setup=setup)
            except (InvalidInput, Conflict) as error:
                reasons[slug] = f"its agent {slug!r} cannot be created: {error.message}"
            except IntegrityError:
                reasons[slug] = f"its agent {slug!r} was created in the meantime and cannot be used"
        # Read again: another request may have made it meanwhile.
        agents = find_agents(by, slugs)
    kept = []
    for one in ready:
        if one.mapped.agent in agents:
            kept.append(one)
        else:
            refused.append(Refusal(one.mapped.step.external_id, reasons[one.mapped.agent]))
    return kept, agents


def _find_episodes(
    by: Actor, ready: Iterable[_Ready], agents: Mapping[str, CurrentAgent]
) -> tuple[dict[str, uuid.UUID], set[str]]:
    """The episode of each trace, locked until the transaction ends; and the traces that were erased.

    An erasure locks them too: it comes before this request and is seen here, or after it and sees what it wrote.
    """
    first: dict[str, MappedSpan] = {}
    for one in ready:
        earlier = first.setdefault(one.mapped.trace, one.mapped)
        if one.mapped.step.started_at < earlier.step.started_at:
            first[one.mapped.trace] = one.mapped
    named: dict[Named, dt.datetime] = {
        (agents[mapped.agent].agent.id, f"trace:{trace}"): mapped.step.started_at for trace, mapped in first.items()
    }
    ids = ensure_episodes(by=by, named=named)
    episodes = {name.removeprefix("trace:"): found for (_, name), found in ids.items()}
    locked = Episode.objects.select_for_update().filter(id__in=episodes.values()).order_by("id")
    gone = {row.id for row in locked.only("id", "external_id") if row.is_erased}
    return episodes, {trace for trace, found in episodes.items() if found in gone}


# Decisions and feedback


def _take_answers(by: Actor, ready: Sequence[_Ready], refused: list[Refusal]) -> list[_Ready]:
    """The model calls that the gateway answered, with its decisions instead of some of their own. Those that it is
    still answering keep their messages: nobody knows yet whether there will be a decision."""
    answers = find_answers(by, {one.mapped.answer for one in ready if one.mapped.answer is not None})
    refused += [_erased(one) for one in ready if one.mapped.answer in answers.erased]
    taken = []
    for one in ready:
        recorded = one.mapped.answer in answers.recorded
        if recorded or one.mapped.answer in answers.coming:
            mapped = replace(one.mapped, decisions=())
            taken.append(replace(one, mapped=mapped, decision=one.mapped.answer, without_arguments=recorded))
        elif one.mapped.answer not in answers.erased:
            taken.append(one)
    return taken


def _record_decisions(
    by: Actor,
    ready: Sequence[_Ready],
    agents: Mapping[str, CurrentAgent],
    refused: list[Refusal],
    warnings: list[Refusal],
) -> list[_Ready]:
    """Writes what is a decision; each span with the first of its decisions that was kept. A span whose decision was
    erased says the same as the decision did, and is refused."""
    items: list[tuple[int, DecisionIn]] = []
    place: dict[int, tuple[int, MappedDecision]] = {}
    for at, one in enumerate(ready):
        for decision in one.mapped.decisions:
            number = len(place)
            place[number] = at, decision
            current = agents.get(decision.agent)
            made = "its agent cannot be created" if current is None else _decision_in(one.mapped, decision, current)
            if isinstance(made, DecisionIn):
                items.append((number, made))
            elif decision.explicit:
                warnings.append(Refusal(one.mapped.step.external_id, f"its decision was not kept: {made}"))
    outcome = record_decisions(by=by, items=items)
    gone: set[int] = set()
    for error in outcome.errors:
        at, decision = place[error.index]
        if error.code == Erased.code:
            gone.add(at)
        elif decision.explicit:
            warnings.append(Refusal(ready[at].mapped.step.external_id, f"its decision was not kept: {_says(error)}"))
    kept = list(ready)
    for row in reversed(outcome.kept):
        at, decision = place[row.index]
        kept[at] = replace(kept[at], decision=row.id, without_arguments=not decision.explicit)
    refused += [_erased(kept[at]) for at in sorted(gone)]
    return [one for at, one in enumerate(kept) if at not in gone]


def _decision_in(mapped: MappedSpan, decision: MappedDecision, current: CurrentAgent) -> DecisionIn | str:
    """What the ledger takes, or why it is none: a model call is a decision where it answered in its agent's space."""
    space = current.version.action_space
    kinds = ("tool_calls", "text") if space in CHATTING else (space,)
    kind = next((one for one in kinds if one in decision.actions), None)
    if kind is None:
        return f"it has no action of the kind {space}"
    step = mapped.step
    fields = {
        "agent": decision.agent,
        "id": decision.id,
        "state": decision.state,
        "action": decision.actions[kind],
        "policy_name": decision.policy,
        "observed_at": step.started_at + dt.timedelta(milliseconds=step.duration_ms),
        "propensity": decision.propensity,
        "temperature": decision.temperature,
        "epsilon": decision.epsilon,
        "confidence": decision.confidence,
        "reasoning": decision.reasoning,
        "finish_reason": read_finish_reason(decision.finish_reason),
        "completion": None if decision.explicit else decision.actions.get("text"),
        "episode": f"trace:{mapped.trace}",
        "unit": decision.unit,
        "latency_ms": step.duration_ms,
        "tokens_in": step.tokens_in,
        "tokens_out": step.tokens_out,
        "cost": step.cost,
    }
    if current.version.options is None and decision.options is not None:
        fields["options"] = list(decision.options)
    try:
        return msgspec.convert(rounded(fields), DecisionIn)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        return f"{fault.field}: {fault.reason}"


def _record_feedback(
    by: Actor, ready: Sequence[_Ready], episodes: Mapping[str, uuid.UUID], warnings: list[Refusal]
) -> None:
    items: list[tuple[int, FeedbackIn]] = []
    senders: list[str] = []
    for one in ready:
        for feedback in one.mapped.feedback:
            on_episode = feedback.on_episode or one.decision is None
            fields = {
                "id": feedback.id,
                "metric": feedback.metric,
                "value": feedback.value,
                "source": feedback.source,
                "observed_at": feedback.observed_at,
                "episode_id": episodes[one.mapped.trace] if on_episode else None,
                "decision_id": None if on_episode else one.decision,
            }
            senders.append(one.mapped.step.external_id)
            items.append((len(items), msgspec.convert(fields, FeedbackIn)))
    for error in record_feedback(by=by, items=items).errors if items else ():
        warnings.append(Refusal(senders[error.index], f"its evaluation was not kept: {_says(error)}"))


def _says(error: ItemError) -> str:
    return "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)


def _step_row(by: Actor, one: _Ready, episode: uuid.UUID, now: dt.datetime) -> Row:
    step = one.mapped.step
    return {
        "id": step.id,
        "workspace_id": by.workspace.id,
        "episode_id": episode,
        "decision_id": one.decision,
        "number": None,
        "kind": step.kind,
        "name": step.name,
        "external_id": step.external_id,
        "parent": step.parent,
        # The messages are the decision's state; they need not be stored twice.
        "arguments": None if one.without_arguments else step.arguments,
        "result": step.result,
        "success": step.success,
        "error": step.error,
        "reasoning_type": step.reasoning_type,
        "content": step.content,
        "confidence": step.confidence,
        "insights": step.insights,
        "issues": step.issues,
        "model": step.model,
        "tokens_in": step.tokens_in,
        "tokens_out": step.tokens_out,
        "cost": None if step.cost is None else Decimal(repr(step.cost)).quantize(COST_GRAIN),
        "started_at": step.started_at,
        "duration_ms": step.duration_ms,
        "attributes": dict(step.attributes) or None,
        "recorded_at": now,
        "content_hash": one.digest,
    }


def summary(recorded: Recorded, refused: Sequence[Refusal] = ()) -> tuple[int, str]:
    """How many spans were refused, and why, in one message for the exporter's log; beside them those that were left
    out, which count as accepted."""
    all_refused = [*refused, *recorded.refused]
    said = [f"span {one.span_id}: {one.reason}" for one in (*all_refused, *recorded.warnings)]
    parts = [*said[:SHOWN], *([f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else [])]
    if names := recorded.left_out:
        kinds = sorted({name[:LONGEST_SHOWN] for name in names})
        shown = ", ".join(map(repr, kinds[:SHOWN])) + (", …" if len(kinds) > SHOWN else "")
        left_out = "1 span" if len(names) == 1 else f"{len(names)} spans"
        parts.append(f"{left_out} about no agent left out: {shown}")
    return len(all_refused), "; ".join(parts)
