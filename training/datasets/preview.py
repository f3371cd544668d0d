"""Previews a dataset of an agent's decisions: how many rows, of what, and what would be left out.

It reads the newest LOOK decisions of each agent, so that it is fast for any ledger; the job that makes the dataset
reads them all. Its conditions are those of `training.rows.selection`, and that no field of the prompt is missing; what
only the making of a row says, such as a chat that cannot be read, the job counts.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.agents.canonical import canonical
from decisions.agents.choices import fields_beside
from decisions.agents.prompts import PromptError, as_text, make_prompt
from decisions.models import ActionSpaceKind, Agent, AgentVersion, Decision
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import THAT_COUNTS
from training.datasets.lacking import LACKS_FIELD, lack_parameters
from training.models import DatasetKind
from training.rows.selection import ALL, LEARNABLE, MATCHES, UNTOLD, Filters, learnt_from
from training.rows.shapes_of.shapes import FINDINGS, shape_for

LOOK = 10_000
MOST_ACTIONS = 20
LONGEST_ACTION = 2000
EXAMPLES = 3

WHY = {
    "feedback": "have no verdict yet",
    "calculation": "have a verdict but no reward yet",
    "reward": "have no reward: the calculation failed or the verdict was undone",
    "propensity": "have no propensity",
    "options": "have no options to choose from",
    "shape": "have actions of another kind than this dataset",
    "action": "chose something that is not among the options, or left a field of the choice empty",
    "media": "are chats with pictures or other media, from which no model here learns",
    "chat": "are chats that end with an answer, so nothing is asked",
    "call": "call a tool with arguments that are no JSON object",
    "item": "have a prompt that does not show the ranked items",
    "filtered": "do not match the filters",
    "incomplete": "have an incomplete answer: cut, filtered or left by the client",
    "version": "were made by another version of the agent",
    "used": "were already used by a run",
    "erased": "were erased",
    "held_out": "have no verdict, so they cannot be held out",
    "apart": "are held out, or belong together with decisions that are",
    # Of people's labels (`training.rows.labels`):
    "program": "were judged by a program, not by a person",
    "answer": "have a verdict that does not name the right action",
    "confirmed": "were confirmed, so no action was better",
    "prompt": "lack a field of the prompt, or are chats that cannot be read",
}
"""Why a decision is left out, by the name that the statement below gives it; the first that holds, from its CASE."""
OFFERING = {ActionSpaceKind.CHOICE, ActionSpaceKind.RANKING}
"""Action spaces whose options may come with each decision."""
SOURCES = {
    "label": "Reviewers’ labels",
    "human": "People’s verdicts from apps",
    "suggestion": "Suggestions of the auto-labeler",
}
"""Where rows of labels come from."""

_PREVIEW = f"""
WITH asked AS (
  SELECT a.id AS agent_id, s.id AS spec_id
    FROM unnest(%(agents)s::uuid[]) AS a(id)
   CROSS JOIN LATERAL (SELECT id FROM decisions_rewardspec
                       WHERE agent_id = a.id AND (%(spec)s::int IS NULL OR number = %(spec)s::int)
                       ORDER BY number DESC LIMIT 1) s
), looked AS (
  SELECT asked.spec_id, newest.*
    FROM asked CROSS JOIN LATERAL (
      SELECT d.id, d.workspace_id, d.agent_id, d.agent_version_id,
             left(CASE WHEN d.action = '[]' AND d.completion <> '' THEN d.completion ELSE d.action #>> '{{}}' END, 200)
               AS action,
             CASE WHEN d.agent_version_id = ANY(%(choosing)s::uuid[]) AND jsonb_typeof(d.action) = 'object'
                  THEN left((d.action - %(beside)s::text[])::text, {LONGEST_ACTION}) END AS fields,
             d.propensity, d.options IS NOT NULL AS offered, d.{NOT_ERASED} AS kept, {MATCHES} AS matches,
             {LEARNABLE} AS learnable, d.state
        FROM decisions_decision d WHERE d.agent_id = asked.agent_id ORDER BY d.id DESC LIMIT {LOOK}
    ) newest
), valued AS (
  SELECT d.*, r.decision_id IS NOT NULL AS calculated, r.value, r.raw, {UNTOLD} AS untold, {THAT_COUNTS} AS verdict
    FROM looked d
    LEFT JOIN LATERAL (
      SELECT decision_id, value, raw, components FROM decisions_reward
       WHERE decision_id = d.id AND spec_id = d.spec_id ORDER BY version DESC LIMIT 1
    ) r ON true
), reasoned AS (
  SELECT d.agent_id, d.id, coalesce(d.fields, d.action) AS action, d.verdict, d.value IS NULL AS unjudged,
         CASE WHEN NOT d.kept THEN 'erased'
              WHEN d.agent_version_id <> %(version)s::uuid THEN 'version'
              WHEN NOT d.agent_version_id = ANY(%(versions)s::uuid[]) THEN 'shape'
              WHEN NOT d.offered AND d.agent_version_id = ANY(%(unoffering)s::uuid[]) THEN 'options'
              WHEN d.matches IS NOT TRUE THEN 'filtered'
              WHEN NOT d.learnable THEN 'incomplete'
              WHEN %(with_propensity)s AND d.propensity IS NULL THEN 'propensity'
              WHEN d.value IS NULL AND NOT (%(unjudged)s AND d.untold AND d.verdict IS NULL)
              THEN CASE WHEN d.calculated THEN 'reward' WHEN d.verdict IS NULL THEN 'feedback' ELSE 'calculation' END
              WHEN d.raw < %(min_reward)s::float8 THEN 'filtered'
              WHEN %(unused_at)s::timestamptz IS NOT NULL AND {learnt_from("d.value IS NOT NULL")} THEN 'used'
              WHEN {LACKS_FIELD} THEN 'prompt'
         END AS why
    FROM valued d
), sorted AS (
  -- Of those that nobody judged the newest, at most as many as have a reward.
  SELECT agent_id, id, action, verdict, unjudged,
         CASE WHEN why IS NULL AND unjudged
               AND row_number() OVER (PARTITION BY agent_id, why IS NULL AND unjudged ORDER BY id DESC)
                   > count(*) FILTER (WHERE why IS NULL AND NOT unjudged) OVER (PARTITION BY agent_id)
              THEN 'feedback' ELSE why END AS why
    FROM reasoned
), ranked AS (
  SELECT agent_id, action, count(*) AS found,
         row_number() OVER (PARTITION BY agent_id ORDER BY count(*) DESC, action) AS place
    FROM sorted WHERE why IS NULL GROUP BY agent_id, action
), newest AS (
  SELECT agent_id, id, row_number() OVER (PARTITION BY agent_id ORDER BY id DESC) AS place FROM sorted WHERE why IS NULL
)
SELECT agent_id, 'why', why, count(*) FROM sorted GROUP BY agent_id, why
UNION ALL SELECT agent_id, 'verdict', verdict, count(*) FROM sorted WHERE why IS NULL GROUP BY agent_id, verdict
UNION ALL SELECT agent_id, 'unjudged', NULL, count(*) FROM sorted WHERE why IS NULL AND unjudged GROUP BY agent_id
UNION ALL SELECT agent_id, 'action', action, found FROM ranked WHERE place <= {MOST_ACTIONS}
UNION ALL SELECT agent_id, 'example', id::text, place FROM newest WHERE place <= {EXAMPLES}
"""  # noqa: S608 - numbers and names of ours


@dataclass(frozen=True, slots=True)
class Preview:
    """Counts among the newest `looked_at` decisions of an agent, of which `rows` would be in the dataset.

    `unjudged` of them have no reward. `actions` (at most MOST_ACTIONS), `verdicts` and, of people's labels, `sources`
    count those rows, the most frequent first; `left_out` counts the others by a key of WHY. `examples` are the newest
    rows' ids, and `answers` the right actions of labels among them.
    """

    rows: int = 0
    looked_at: int = 0
    unjudged: int = 0
    actions: tuple[tuple[str, int], ...] = ()
    verdicts: tuple[tuple[str, int], ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    examples: tuple[uuid.UUID, ...] = ()
    answers: tuple[str, ...] = ()

    @property
    def look_ended(self) -> bool:
        """There may be more decisions than were looked at."""
        return self.looked_at >= LOOK

    @property
    def told_left_out(self) -> list[tuple[str, int, str]]:
        """Key, count and words of each reason."""
        return tell_left_out(self.left_out)

    @property
    def told_sources(self) -> list[tuple[str, int]]:
        """Words and count of each source."""
        return tell_sources(self.sources)

    def counts(self, why: str) -> int:
        return dict(self.left_out).get(why, 0)


def tell_left_out(counts: Iterable[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Key, count and words of each reason."""
    return [(why, count, WHY[why]) for why, count in counts]


def tell_sources(counts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Words and count of each source of rows."""
    return [(SOURCES[source], count) for source, count in counts]


def by_count(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """The most frequent first."""
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], str(pair[0]))))


def preview_datasets(
    agents: Sequence[Agent],
    *,
    kind: str = DatasetKind.LOGGED,
    agent_version: AgentVersion | None = None,
    unused_at: dt.datetime | None = None,
    filters: Filters = ALL,
    reward_spec: int | None = None,
) -> dict[uuid.UUID, Preview]:
    """By agent, what a dataset by its current reward spec, or by the one of this number, would hold: two statements for
    any number of agents. A policy of the `filters` that is a version of a model is that of the first agent.

    `unused_at`: only decisions that no run had learnt from at that moment.
    """
    found: dict[uuid.UUID, dict[str, list[tuple[Any, int]]]] = {agent.id: {} for agent in agents}
    if not agents:
        return {}
    versions = list(AgentVersion.objects.filter(agent__in=agents))
    shapes = {one.id: shape_for(one, kind) for one in versions}
    of_kind = [one for one in versions if shapes[one.id] is not None]
    # A prompt of a ranking's item, or of a finding's, is not made of the state as it is.
    plain = [one for one in of_kind if one.action_space != ActionSpaceKind.RANKING and shapes[one.id] is not FINDINGS]
    parameters = (
        filters.parameters(agents[0])
        | lack_parameters(plain)
        | {
            "agents": [agent.id for agent in agents],
            "version": agent_version.id if agent_version is not None else None,
            "unused_at": unused_at,
            "spec": reward_spec,
            "versions": [one.id for one in of_kind],
            "unoffering": [one.id for one in of_kind if one.action_space in OFFERING and one.options is None],
            "choosing": [one.id for one in of_kind if kind == DatasetKind.LOGGED and shapes[one.id] is not FINDINGS],
            "beside": sorted({name for one in of_kind for name in fields_beside(one)}),
        }
    )
    with connection.cursor() as cursor:
        cursor.execute(_PREVIEW, parameters)
        for agent_id, what, name, count in cursor.fetchall():
            found[agent_id].setdefault(what, []).append((name, count))
    return {agent_id: _read(lines) for agent_id, lines in found.items()}


def _read(lines: dict[str, list[tuple[Any, int]]]) -> Preview:
    why = dict(lines.get("why", []))
    return Preview(
        rows=why.get(None, 0),
        looked_at=sum(why.values()),
        unjudged=sum(count for _, count in lines.get("unjudged", [])),
        actions=by_count(_tell_actions(lines.get("action", [])).items()),
        verdicts=by_count([(name or "no verdict", count) for name, count in lines.get("verdict", [])]),
        left_out=by_count([(name, count) for name, count in why.items() if name is not None]),
        examples=tuple(uuid.UUID(name) for name, _ in sorted(lines.get("example", []), key=lambda pair: pair[1])),
    )


def _tell_actions(found: Sequence[tuple[str, int]]) -> Counter[str]:
    """An action of fields is told as the option that it is."""
    told = Counter[str]()
    for action, count in found:
        try:
            plain = json.loads(action) if action.startswith("{") else action
        except ValueError:
            plain = action  # cut short, or a text that begins so
        told[plain if isinstance(plain, str) else canonical(plain)] += count
    return told


@dataclass(frozen=True, slots=True)
class Example:
    """A row as it would be: its prompt after the system prompt, what was done, the decision that it comes from; of
    labels, what is right."""

    decision: Decision
    action: Any
    system: str
    prompt: str
    verdict: str
    reward: float | None
    right: str = ""


_SHOWN = f"""
SELECT d.id, {THAT_COUNTS}, r.value
  FROM decisions_decision d
  LEFT JOIN LATERAL (
    SELECT value FROM decisions_reward r JOIN decisions_rewardspec s ON s.id = r.spec_id
     WHERE r.decision_id = d.id ORDER BY s.number DESC, r.version DESC LIMIT 1
  ) r ON true
 WHERE d.id = ANY(%s)
"""  # noqa: S608 - names of ours


def show_examples(ids: Sequence[uuid.UUID], answers: Mapping[uuid.UUID, str]) -> list[Example]:
    """In the order of `ids`; the reward in [0, 1] by the newest spec, what is right by `answers`. Two statements."""
    if not ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN, [list(ids)])
        told = {row: (verdict or "", value) for row, verdict, value in cursor.fetchall()}
    decisions = Decision.objects.select_related("agent_version").in_bulk(list(ids))
    return [_show_example(decisions[pk], *told[pk], answers.get(pk, "")) for pk in ids if pk in decisions]


def _show_example(decision: Decision, verdict: str, reward: float | None, right: str) -> Example:
    action = decision.completion if decision.action == [] and decision.completion else decision.action
    system, prompt = decision.agent_version.system_prompt, as_text(decision.state)
    with suppress(PromptError):
        asked = make_prompt(decision.agent_version, decision.state, decision.options or ())
        system, prompt = asked.system, asked.text
    return Example(decision, action, system, prompt, verdict, reward, right)
