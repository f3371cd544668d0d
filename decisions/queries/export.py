"""The ledger as training data: JSON lines of chats, or of prompts with completions.

The REST endpoints, the notes app's endpoints and `manage.py export_training_data` all use it. The ledger is read newest
first, page by page by key: memory does not grow with it, and no transaction stays open while a slow client reads.
Erased decisions are never exported.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import connection
from psycopg import sql

from decisions.agents.chat_actions import without_ids
from decisions.agents.kinds import KINDS
from decisions.agents.prompts import PromptError, make_prompt
from decisions.models import Agent, AgentVersion, RewardSpec
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import ALL_FEEDBACK, FIRST_COUNTS, GIVEN_AT, STANDS, VERDICT, WITHDRAWN
from decisions.queries.exported import Exported, write_choice_rows
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

PAGE, LONGEST_PAGE = 1_000, 16_000
FEW = 10_000
"""Where at most this many can have the reward or the verdict that is required, they are looked up, not walked to."""
LAST_ID = uuid.UUID(int=2**128 - 1)
SYSTEM = "You decide for the agent {name}. Answer with your decision as JSON: action, reasoning, confidence."


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """Which decisions. Rewards are on the raw scale, the weighted sum clamped to ±5.

    `agent` is a slug, `kind` one of AgentKind. The bounds hold for decisions that have a reward; `require_reward`
    leaves the others out. `since` ≤ recorded_at < `until`, by the server's clock. `limit` None means all.
    """

    agent: str | None = None
    kind: str | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    require_reward: bool = False
    require_feedback: bool = False
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    limit: int | None = 1000


@dataclass(slots=True)
class ExportReport:
    """Filled while lines are taken. `unusable` decisions lack a field that their agent's prompt names."""

    rows: int = 0
    unusable: int = 0
    reward_sum: float = 0.0
    rewarded: int = 0
    agents: dict[str, int] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        mean = self.reward_sum / self.rewarded if self.rewarded else None
        return {"rows": self.rows, "unusable": self.unusable, "mean_reward": mean, "agents": self.agents}

    def count(self, row: Exported) -> None:
        self.rows += 1
        self.agents[row.agent.slug] = self.agents.get(row.agent.slug, 0) + 1
        if row.reward is not None:
            self.rewarded += 1
            self.reward_sum += row.reward


# The page is picked first, by key alone: whatever the filters, the planner walks one index and never sorts the ledger.
# What a filter drops is dropped as soon as it is known and never leaves the database; the first two columns say where
# the walk ended and how many it passed, also where nothing is left.
_PAGE = f"""
WITH page AS MATERIALIZED (
  SELECT d.id, d.agent_id, d.agent_version_id, d.item_ref, d.project_ref, {{content}},
         d.confidence, d.observed_at, d.unit, d.propensity, d.temperature, d.epsilon, d.finish_reason
    FROM decisions_decision d
   WHERE {{scope}} AND d.id < %(before)s{{conditions}}
   ORDER BY d.id DESC LIMIT %(page)s
), rewarded AS MATERIALIZED (
  SELECT p.*, r.raw, r.computed_at, (r.components -> s.signal ->> 'value')::float8 AS signal
    FROM page p
    LEFT JOIN unnest(%(agents)s::uuid[], %(specs)s::uuid[], %(signals)s::text[]) AS s(agent_id, spec_id, signal)
           ON s.agent_id = p.agent_id
    LEFT JOIN LATERAL (
      SELECT raw, computed_at, components FROM decisions_reward
       WHERE decision_id = p.id AND spec_id = s.spec_id ORDER BY version DESC LIMIT 1
    ) r ON true
   WHERE (r.raw IS NOT NULL OR NOT %(require_reward)s)
     AND (r.raw IS NULL OR %(min_reward)s::float8 IS NULL OR r.raw >= %(min_reward)s::float8)
     AND (r.raw IS NULL OR %(max_reward)s::float8 IS NULL OR r.raw <= %(max_reward)s::float8)
), judged AS MATERIALIZED (
  SELECT p.*, f.verdict, f.key, f.metrics
    FROM rewarded p
    LEFT JOIN LATERAL (
      SELECT (array_agg(b.value #>> '{{{{}}}}' ORDER BY {FIRST_COUNTS.format("b")})
                FILTER (WHERE b.metric = '{VERDICT}'))[1] AS verdict,
             (array_agg(b.idempotency_key ORDER BY {FIRST_COUNTS.format("b")})
                FILTER (WHERE b.metric = '{VERDICT}'))[1] AS key,
             jsonb_object_agg(b.metric, b.value ORDER BY {GIVEN_AT.format("b")}, b.id)
                FILTER (WHERE b.metric NOT IN ('{VERDICT}', '{WITHDRAWN}')) AS metrics
        FROM decisions_feedback b
       WHERE b.decision_id = p.id AND b.workspace_id = %(workspace)s
         AND {STANDS.format("b", ALL_FEEDBACK)}
    ) f ON true
   WHERE f.verdict IS NOT NULL OR NOT %(require_feedback)s
), found AS (
  SELECT p.*, l.correction, l.corrected_action
    FROM judged p
    LEFT JOIN LATERAL (
      SELECT coalesce(correction_sent, corrected_action, to_jsonb(nullif(note, ''))) AS correction, corrected_action
        FROM decisions_label WHERE decision_id = p.id AND 'label:' || id = p.key
    ) l ON true
)
SELECT (SELECT id FROM page ORDER BY id LIMIT 1), (SELECT count(*) FROM page), f.id, f.agent_id, f.agent_version_id,
       f.item_ref, f.project_ref, f.state, f.options, f.action, f.reasoning, f.confidence, f.observed_at, f.raw,
       f.computed_at, f.verdict, f.correction, f.corrected_action, f.metrics, f.unit, f.propensity, f.alternatives,
       f.temperature, f.epsilon, f.signal, f.finish_reason
  FROM (VALUES (1)) one LEFT JOIN found f ON true ORDER BY f.id DESC
"""  # noqa: S608 - our own names

_CONTENT = "d.state, d.options, d.action, d.reasoning, d.alternatives"
_NO_CONTENT = "'{}'::jsonb AS state, NULL AS options, 'null'::jsonb AS action, NULL AS reasoning, NULL AS alternatives"
"""For whoever only counts."""

# What may be among the chosen, as PostgreSQL's text of an array, or NULL where it is too much: newer versions and facts
# that supersede are asked for by the page itself.
_FEW = """
SELECT CASE WHEN count(*) <= %(most)s THEN coalesce(array_agg(decision_id)::text, '{{}}') END
  FROM ({among} LIMIT %(most)s + 1) among
"""
_REWARDED = """
SELECT decision_id FROM decisions_reward
 WHERE spec_id = ANY(%(specs)s::uuid[]) AND raw BETWEEN coalesce(%(min_reward)s::float8, '-infinity')
                                                    AND coalesce(%(max_reward)s::float8, 'infinity')
"""
_JUDGED = """
SELECT decision_id FROM decisions_feedback
 WHERE workspace_id = %(workspace)s AND metric = 'verdict' AND decision_id IS NOT NULL
"""


def export_rows(*, workspace: Workspace, chosen: ExportChoice, with_content: bool = True) -> Iterator[Exported]:
    """The chosen decisions, newest first; without content state, options, action and reasoning are empty. Raises
    InvalidInput, before the first row, for an agent that is not there."""
    agents = _find_agents(workspace, chosen)
    return _walk(workspace, chosen, agents, _CONTENT if with_content else _NO_CONTENT)


def _find_agents(workspace: Workspace, chosen: ExportChoice) -> dict[uuid.UUID, Agent]:
    agents = Agent.objects.for_workspace(workspace)
    if chosen.agent is not None:
        agents = agents.filter(slug=chosen.agent)
        if not agents.exists():
            raise InvalidInput(
                "The agent is unknown.",
                faults=[FieldFault("agent", f"{chosen.agent!r} does not exist in this workspace", "an agent's slug")],
            )
    if chosen.kind is not None:
        agents = agents.filter(kind=chosen.kind)
    return {agent.id: agent for agent in agents}


def _walk(
    workspace: Workspace, chosen: ExportChoice, agents: Mapping[uuid.UUID, Agent], content: str
) -> Iterator[Exported]:
    if not agents or chosen.limit == 0:
        return
    newest = RewardSpec.objects.filter(agent__in=agents).order_by("agent_id", "-number").distinct("agent_id")
    specs = {spec.agent_id: spec for spec in newest}
    versions = AgentVersion.objects.filter(agent__in=agents).in_bulk()
    parameters: dict[str, Any] = {
        "workspace": workspace.id,
        "agents": list(agents),
        "specs": [specs[agent].id if agent in specs else None for agent in agents],
        "signals": [specs[agent].signal if agent in specs else None for agent in agents],
        "agent": next(iter(agents)),
        "min_reward": chosen.min_reward,
        "max_reward": chosen.max_reward,
        "require_reward": chosen.require_reward,
        "require_feedback": chosen.require_feedback,
        "since": chosen.since,
        "until": chosen.until,
    }
    few = _find_few(chosen, parameters)
    if few == "{}":
        return
    statement = _build(chosen, content, one_agent=len(agents) == 1, few=few is not None)
    parameters["few"] = few
    before, left, size = LAST_ID, chosen.limit, PAGE
    while True:
        with connection.cursor() as cursor:
            cursor.execute(statement, {**parameters, "before": before, "page": size})
            rows = cursor.fetchall()
        last, walked = rows[0][:2]
        kept = 0
        for _, _, row_id, agent_id, version_id, *rest in rows:
            if row_id is None:
                continue  # nothing of this page is left
            kept += 1
            yield Exported(row_id, agents[agent_id], versions[version_id], specs.get(agent_id), *rest)
            if left is not None:
                left -= 1
                if left == 0:
                    return
        if walked < size:
            return
        before = last
        # Where the filters leave little, a page may be longer and still hold as little.
        size = min(2 * size, LONGEST_PAGE) if kept < PAGE // 4 else PAGE


def _find_few(chosen: ExportChoice, parameters: Mapping[str, Any]) -> str | None:
    """Decisions among which all the chosen are, or None where they are many."""
    among = [_REWARDED] * chosen.require_reward + [_JUDGED] * chosen.require_feedback
    for one in among:
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(_FEW).format(among=sql.SQL(one)), {**parameters, "most": FEW})
            [few] = cursor.fetchone()
        if few is not None:
            return str(few)
    return None


def _build(chosen: ExportChoice, content: str, *, one_agent: bool, few: bool) -> sql.Composed:
    conditions = f" AND d.{NOT_ERASED}"
    if chosen.since is not None:
        conditions += " AND d.recorded_at >= %(since)s"
    if chosen.until is not None:
        conditions += " AND d.recorded_at < %(until)s"
    if few:
        conditions += " AND d.id = ANY(%(few)s::uuid[])"
    # Each scope has its own index in order of ids.
    scope = "d.agent_id = %(agent)s" if one_agent else "d.workspace_id = %(workspace)s AND d.agent_id = ANY(%(agents)s)"
    return sql.SQL(_PAGE).format(scope=sql.SQL(scope), conditions=sql.SQL(conditions), content=sql.SQL(content))


def _raw(text: str | None) -> msgspec.Raw | None:
    return msgspec.Raw(text.encode()) if text is not None else None


def _metadata(row: Exported) -> dict[str, Any]:
    return {
        "decisionId": row.id,
        "agentType": row.agent.kind,
        "agent": row.agent.slug,
        "itemId": row.item_ref,
        "opusId": row.project_ref,
        **({"finishReason": row.finish_reason} if row.finish_reason is not None else {}),
        "userFeedback": row.verdict.upper() if row.verdict is not None else None,
        "userCorrection": _raw(row.correction),
        "outcomeMetrics": _raw(row.metrics),
        "createdAt": row.observed_at,
        "rewardComputedAt": row.rewarded_at,
    }


def system_message(row: Exported) -> str:
    """The system prompt under which it was decided; where there was none, a plain word of the agent's part."""
    agent = row.agent
    if row.version.system_prompt:
        return row.version.system_prompt
    setup = KINDS.get(agent.kind)
    return setup.system if setup is not None else SYSTEM.format(name=agent.name)


def as_chat(row: Exported) -> dict[str, Any]:
    """{messages, reward, metadata, rows}: the state as the user's message, action, reasoning and confidence as the
    answer. `rows` (decisions.queries.exported) are there where it chose or ranked. `metadata.systemPrompt` says
    whether the system message is the agent's own system prompt."""
    answer = {"action": _raw(row.action), "reasoning": row.reasoning, "confidence": row.confidence}
    return {
        "messages": [
            {"role": "system", "content": system_message(row)},
            {"role": "user", "content": row.state},
            {"role": "assistant", "content": msgspec.json.encode(answer).decode()},
        ],
        "reward": row.reward,
        "metadata": _metadata(row) | {"systemPrompt": bool(row.version.system_prompt)},
        **write_choice_rows(row),
    }


def as_completion(row: Exported) -> dict[str, Any]:
    """{prompt, completion, reward, metadata, rows}: the agent's own prompt, and the answer it asks for; `system` beside
    them where it was decided under a system prompt, `rows` as in a chat.

    An action that is an object is completed by reasoning and confidence where they were logged; text stays text.
    Raises PromptError for a state without a field that the prompt names.
    """
    state = msgspec.json.decode(row.state)
    options = msgspec.json.decode(row.options) if row.options is not None else ()
    action = msgspec.json.decode(row.action)
    if isinstance(action, dict):
        said = {"reasoning": row.reasoning, "confidence": row.confidence}
        action = {**{name: value for name, value in said.items() if value is not None}, **action}
    asked = make_prompt(row.version, state, options)
    return {
        **({"system": asked.system} if asked.system else {}),
        "prompt": asked.text,
        "completion": action if isinstance(action, str) else msgspec.json.encode(without_ids(action)).decode(),
        "reward": row.reward,
        "metadata": _metadata(row),
        **write_choice_rows(row),
    }


FORMATS: Mapping[str, Callable[[Exported], dict[str, Any]]] = {"chat": as_chat, "completion": as_completion}


def export_lines(
    *, workspace: Workspace, chosen: ExportChoice, format: str, report: ExportReport | None = None
) -> Iterator[bytes]:
    """JSON lines, each with its line break. Raises InvalidInput before the first line; see `export_rows`."""
    if format not in FORMATS:
        raise InvalidInput(
            "The format is unknown.", faults=[FieldFault("format", f"{format!r} is unknown", " or ".join(FORMATS))]
        )
    rows = export_rows(workspace=workspace, chosen=chosen)
    return _lines(rows, FORMATS[format], report or ExportReport())


def _lines(
    rows: Iterator[Exported], shape: Callable[[Exported], dict[str, Any]], report: ExportReport
) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for row in rows:
        try:
            line = encoder.encode(shape(row))
        except PromptError:
            report.unusable += 1
            continue
        report.count(row)
        yield line + b"\n"
