"""Asks a shadow's candidate about decisions, and stores its answers. `training.shadows.rounds` calls it by batches.

It is asked as the gateway would ask it (`decisions.gateway.ways`), by the decision's own version of the agent, from the
ledger. A decision that cannot be asked about, or that the candidate does not answer, gets a row with the reason.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import F
from django.utils import timezone

from decisions.agents.choices import action_of, option_of
from decisions.agents.current import CurrentAgent, space_of
from decisions.gateway.arms import ask_each
from decisions.gateway.requests import IdentifiedItem, ModelReply, RenderedPrompt, RoutedRequest, WritingPrompt
from decisions.gateway.routing import pin_request
from decisions.gateway.ways import render
from decisions.ingest.schemas import DecideItem
from decisions.models import ActionSpaceKind, AgentVersion, Decision, Shadow, ShadowAnswer
from decisions.models.tombstones import ERASED_HASH, NOT_ERASED
from training.rows.decision_fields import find_compared
from training.rows.selection import loaded
from training.shadows.agreement import is_same_action, kendall_tau

LONGEST = 500
OVERLAP = dt.timedelta(seconds=60)
"""A decision is seen once its transaction has ended, which may be so long after its time of arrival."""

# A decision is in the sample or not, whoever asks, and however often.
_NEXT = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, d.recorded_at
  FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND d.agent_version_id = ANY(%(versions)s) AND d.recorded_at >= %(since)s
   AND d.{NOT_ERASED}
   AND ('x' || left(md5(%(shadow)s::text || d.id::text), 8))::bit(32)::bigint < %(share)s * 4294967296
   AND NOT EXISTS (SELECT 1 FROM decisions_shadowanswer a WHERE a.shadow_id = %(shadow)s::uuid AND a.decision_id = d.id)
 ORDER BY d.recorded_at, d.id
 LIMIT %(most)s
"""  # noqa: S608 - constants of ours


@dataclass(frozen=True, slots=True)
class Logged:
    """A decision to ask about: what is asked, and what was done. `places` of what was done among the options, one of a
    choice and several of a ranking; none where actions are written. `error` where it cannot be asked about: then there
    is no `prompt`."""

    id: uuid.UUID
    current: CurrentAgent
    item: DecideItem
    action: Any
    recorded_at: dt.datetime
    prompt: RenderedPrompt | None = None
    places: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One batch. nobody: no server of the candidate answered anything."""

    answers: Sequence[ShadowAnswer]
    cost: Decimal
    nobody: bool


def find_unasked(shadow: Shadow, most: int) -> list[Logged]:
    """At most so many decisions of the sample that arrived since the shadow's start and have no answer, in order of
    arrival."""
    versions = {version.id: version for version in shadow.agent.versions.all()}
    since = shadow.created_at
    if shadow.read_until is not None:
        since = max(since, shadow.read_until - OVERLAP)
    with connection.cursor() as cursor:
        cursor.execute(
            _NEXT,
            {
                "agent": shadow.agent_id,
                "versions": list(versions),
                "since": since,
                "shadow": str(shadow.id),
                "share": shadow.share,
                "most": most,
            },
        )
        rows = cursor.fetchall()
    return [
        _prepare(
            Logged(
                pk,
                CurrentAgent(shadow.agent, versions[version], space_of(versions[version])),
                DecideItem(state=loaded(state), options=_offered(versions[version], loaded(options))),
                loaded(action),
                recorded_at,
            )
        )
        for pk, version, state, options, action, recorded_at in rows
    ]


def _offered(version: AgentVersion, options: Sequence[str] | None) -> list[str] | None:
    """Those of a structured action follow from its schema and the state. An agent of texts that does not name its tools
    is asked without those of the chat, which are none of its own."""
    own = version.action_space == ActionSpaceKind.TEXT and not version.action_schema
    return None if options is None or own or version.action_space == ActionSpaceKind.STRUCTURED else list(options)


def _prepare(one: Logged) -> Logged:
    version = one.current.version
    rendering = render(one.current, one.item)
    prompt = rendering.prompt
    if prompt is None or rendering.faults:
        reasons = "; ".join(f"{fault.field} {fault.reason}" for fault in rendering.faults)
        return replace(one, error=f"It cannot be asked about: {reasons}.")
    if isinstance(prompt, WritingPrompt):
        return replace(one, prompt=prompt)
    ranked = version.action_space == ActionSpaceKind.RANKING
    done = one.action if ranked and isinstance(one.action, list) else [option_of(version, one.action)]
    if not done or any(option not in prompt.options for option in done):
        return replace(one, error=f"The recorded action is {'not an order' if ranked else 'not one'} of the options.")
    return replace(one, prompt=prompt, places=tuple(prompt.options.index(option) for option in done))


def ask_candidate(shadow: Shadow, batch: Sequence[Logged]) -> Answered:
    """Nothing is stored yet."""
    asked = [one for one in batch if not one.error]
    replies = ask_each([(request := _ask_about(shadow, one), request.answerer) for one in asked])
    now, cost = timezone.now(), Decimal(0)
    answers = [_failure(shadow, one, one.error, now) for one in batch if one.error]
    silent = 0
    for one, reply in zip(asked, replies, strict=True):
        if not reply.answered:
            silent += not (reply.refused or reply.unusable)
            answers.append(_failure(shadow, one, reply.error or "It did not answer.", now))
            continue
        cost += reply.cost or 0
        answers.append(
            ShadowAnswer(
                workspace_id=shadow.workspace_id,
                shadow=shadow,
                decision_id=one.id,
                answered_at=now,
                **_read_reply(one, reply),
            )
        )
    return Answered(answers, cost, nobody=bool(asked) and silent == len(asked))


def _ask_about(shadow: Shadow, one: Logged) -> RoutedRequest:
    assert one.prompt is not None
    return pin_request(IdentifiedItem(one.id, "", one.item), "", one.current, shadow.version, one.prompt)


def _read_reply(one: Logged, reply: ModelReply) -> dict[str, Any]:
    """The fields of its answer."""
    version, thought = one.current.version, reply.probabilities
    if thought is None:
        compared = find_compared(one.current.agent)
        return {"pick": reply.action, "agrees": is_same_action(version, reply.action, one.action, compared)}
    assert one.prompt is not None
    options, first = one.prompt.options, one.places[0]
    order = sorted(range(len(thought)), key=lambda place: -thought[place])
    known = {"probabilities": list(thought), "place": first, "agrees": order[0] == first}
    if version.action_space != ActionSpaceKind.RANKING:
        return known | {"pick": action_of(version, options[order[0]])}
    return known | {
        "pick": [options[place] for place in order[: len(one.places)]],
        "places": list(one.places),
        "tau": kendall_tau(thought, one.places),
    }


def _failure(shadow: Shadow, one: Logged, error: str, now: dt.datetime) -> ShadowAnswer:
    return ShadowAnswer(
        workspace_id=shadow.workspace_id, shadow=shadow, decision_id=one.id, error=error[:LONGEST], answered_at=now
    )


def store_answers(shadow: Shadow, answered: Answered, *, read_until: dt.datetime) -> None:
    """Once for each decision that is still there. Call inside the job's fenced transaction."""
    # The lock waits for an erasure under way, which then is not followed by what it was to remove.
    ids = [one.decision_id for one in answered.answers]
    there = Decision.objects.filter(id__in=ids).exclude(content_hash=ERASED_HASH).order_by("id")
    kept = set(there.select_for_update(no_key=True, of=("self",)).values_list("id", flat=True))
    answers = [one for one in answered.answers if one.decision_id in kept]
    ShadowAnswer.objects.bulk_create(answers)
    failed = sum(1 for one in answers if one.error)
    Shadow.objects.filter(id=shadow.id).update(
        answered=F("answered") + len(answers) - failed,
        failed=F("failed") + failed,
        cost=F("cost") + answered.cost,
        read_until=read_until,
    )
