"""Asks a shadow's candidate about decisions, and stores its answers. `training.shadows.rounds` calls it by batches.

The prompt is that of the decision's own version of the agent, from the ledger. A decision that cannot be asked about,
or that the candidate does not answer, gets a row with the reason.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import F
from django.utils import timezone

from decisions.agents.choices import action_of, choices_of, option_of
from decisions.agents.prompts import PromptError, make_prompt
from decisions.models import AgentVersion, Decision, Shadow, ShadowAnswer
from decisions.models.tombstones import ERASED_HASH, NOT_ERASED
from models_registry.backends.asking import Asked, score_versions
from models_registry.prompts import Prompt
from training.rows_of.shapes import CHOICE, find_versions
from training.selection import loaded

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


_NOTHING = Prompt("")


@dataclass(frozen=True, slots=True)
class Logged:
    """A decision to ask about: what was offered, and what was done. `place` of the action among the options; `error`
    where it cannot be asked about."""

    id: uuid.UUID
    version: AgentVersion
    recorded_at: dt.datetime
    prompt: Prompt = _NOTHING
    options: tuple[str, ...] = ()
    place: int = 0
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
    versions, shapes = find_versions(shadow.agent, CHOICE.kind)
    since = shadow.created_at
    if shadow.read_until is not None:
        since = max(since, shadow.read_until - OVERLAP)
    with connection.cursor() as cursor:
        cursor.execute(
            _NEXT,
            {
                "agent": shadow.agent_id,
                "versions": [pk for pk in versions if shapes[pk] is CHOICE],
                "since": since,
                "shadow": str(shadow.id),
                "share": shadow.share,
                "most": most,
            },
        )
        rows = cursor.fetchall()
    return [
        _prepare(pk, versions[version], loaded(state), loaded(options), loaded(action), recorded_at)
        for pk, version, state, options, action, recorded_at in rows
    ]


def _prepare(
    pk: uuid.UUID,
    version: AgentVersion,
    state: Mapping[str, Any],
    options: Sequence[str] | None,
    action: Any,
    recorded_at: dt.datetime,
) -> Logged:
    choices = choices_of(version, state, options)
    if not choices.options:
        return Logged(pk, version, recorded_at, error=f"The action {choices.reason or 'has no options'}.")
    option = option_of(version, action)
    if option is None or option not in choices.options:
        return Logged(pk, version, recorded_at, error="What was done is none of the options.")
    try:
        prompt = make_prompt(version, state, choices.options)
    except PromptError as error:
        return Logged(pk, version, recorded_at, error=f"The state does not fit the prompt: {error}")
    return Logged(pk, version, recorded_at, prompt, choices.options, choices.options.index(option))


def ask_candidate(shadow: Shadow, batch: Sequence[Logged]) -> Answered:
    """Nothing is stored yet."""
    asked = [one for one in batch if not one.error]
    told = score_versions([Asked(shadow.version, o.prompt, o.options, o.version.max_prompt_tokens) for o in asked])
    now, cost = timezone.now(), Decimal(0)
    answers = [_failure(shadow, one, one.error, now) for one in batch if one.error]
    silent = 0
    for one, answer in zip(asked, told, strict=True):
        thought = answer.score.probabilities
        if thought is None:
            silent += not answer.score.refused
            answers.append(_failure(shadow, one, answer.score.error or "It did not answer.", now))
            continue
        if answer.endpoint is not None:
            cost += answer.endpoint.price(answer.score.tokens_in, answer.score.tokens_out) or 0
        pick = max(range(len(thought)), key=thought.__getitem__)
        answers.append(
            ShadowAnswer(
                workspace_id=shadow.workspace_id,
                shadow=shadow,
                decision_id=one.id,
                probabilities=list(thought),
                place=one.place,
                pick=action_of(one.version, one.options[pick]),
                agrees=pick == one.place,
                answered_at=now,
            )
        )
    return Answered(answers, cost, nobody=bool(asked) and silent == len(asked))


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
