"""Reads from the ledger what the auto-labeler learns from and looks at, as cases and answers.

It learns from what people said: a confirmed action was right, a correction says what was, and of whole traces whether
they were right is all that is learnt. What an app sends as a person's verdict counts as a reviewer's label does.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.agents.actions import values_at
from decisions.agents.canonical import canonical
from decisions.agents.choices import choices_of
from decisions.labelling.learning import Case
from decisions.labelling.slates import make_slate
from decisions.labelling.targets import FIRST, OPTION, VERDICT, Part, Target
from decisions.labelling.wording import LONGEST_TEXT, text_of
from decisions.models import Agent, AgentVersion
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import (
    ALL_FEEDBACK,
    EPISODE_HAS_VERDICT,
    FIRST_COUNTS,
    STANDS,
    THAT_COUNTS,
)
from decisions.models.verdicts import (
    VERDICT as METRIC,
)

MOST_LABELS, MOST_TRACES, MOST_OPEN = 20_000, 4_000, 5_000
"""It learns from so many of the newest judged decisions, of traces from fewer, and looks at so many of the newest
without a verdict."""
CHUNK = 500
RIGHT, WRONG = "confirmed", "corrected"
_SAID = {"confirmed": RIGHT, "corrected": WRONG, "overridden": WRONG}

_JUDGED = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, v.verdict,
       coalesce(l.corrected_action, v.correction)
  FROM (SELECT DISTINCT c.id FROM decisions_feedback f JOIN decisions_decision c ON c.id = f.decision_id
         WHERE f.workspace_id = %(workspace)s AND f.metric = '{METRIC}' AND f.source = 'human'
           AND c.agent_id = %(agent)s
         ORDER BY c.id DESC LIMIT %(most)s) judged
  JOIN decisions_decision d ON d.id = judged.id
  JOIN LATERAL (SELECT f.value #>> '{{}}' AS verdict, f.source, f.idempotency_key AS key, f.correction
                  FROM decisions_feedback f
                 WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id AND f.metric = '{METRIC}'
                   AND {STANDS.format("f", ALL_FEEDBACK)}
                 ORDER BY {FIRST_COUNTS.format("f")} LIMIT 1) v ON v.source = 'human'
  LEFT JOIN decisions_label l ON l.decision_id = d.id AND 'label:' || l.id = v.key
 WHERE d.{NOT_ERASED}
 ORDER BY d.id
"""  # noqa: S608 - our own names
_OPEN = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, NULL, NULL FROM decisions_decision d
 WHERE d.agent_id = %(agent)s AND d.{NOT_ERASED} AND {THAT_COUNTS} IS NULL
 ORDER BY d.id DESC LIMIT %(most)s
"""  # noqa: S608
_JUDGED_EPISODES = f"""
SELECT DISTINCT ON (e.id) e.id, e.query, e.final_response, f.value #>> '{{}}'
  FROM decisions_feedback f JOIN decisions_episode e ON e.id = f.episode_id
 WHERE f.workspace_id = %(workspace)s AND f.metric = '{METRIC}' AND f.source = 'human' AND e.agent_id = %(agent)s
   AND NOT EXISTS (SELECT 1 FROM {ALL_FEEDBACK} later
                    WHERE later.episode_id = f.episode_id AND later.workspace_id = f.workspace_id
                      AND later.supersedes = f.id)
 ORDER BY e.id DESC, {FIRST_COUNTS.format("f")} LIMIT %(most)s
"""  # noqa: S608
# One whose only decision is asked about, or was judged, is not asked about as well; nor one in which nothing was done.
_OPEN_EPISODES = f"""
SELECT e.id, e.query, e.final_response, NULL FROM decisions_episode e
 WHERE e.agent_id = %(agent)s AND NOT {EPISODE_HAS_VERDICT}
   AND (SELECT CASE count(*) WHEN 0 THEN e.final_response <> '' WHEN 1 THEN false ELSE true END
          FROM (SELECT 1 FROM decisions_decision d WHERE d.episode_id = e.id LIMIT 2) few)
 ORDER BY e.id DESC LIMIT %(most)s
"""  # noqa: S608
_STEPS = """
SELECT DISTINCT {column}, kind, name, success FROM decisions_step
 WHERE {column} = ANY(%(ids)s) AND workspace_id = %(workspace)s AND kind <> 'reasoning'
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A decision of the agent's, or where `version` is None a whole episode. `verdict` is a person's, `right` the
    action that they call right, None where nobody names one."""

    id: uuid.UUID
    version: AgentVersion | None
    state: Any
    options: Any
    action: Any
    verdict: str | None = None
    right: Any = None

    @property
    def is_episode(self) -> bool:
        return self.version is None


def read_judged(agent: Agent, target: Target) -> list[Row]:
    """What people judged, decisions first, oldest first."""
    if target.kind == VERDICT:
        known = {"most": MOST_TRACES}
        return [*_read_decisions(agent, _JUDGED, **known), *_read_episodes(agent, _JUDGED_EPISODES, **known)]
    rows = _read_decisions(agent, _JUDGED, most=MOST_LABELS)
    return [row for row in rows if row.right is not None]


def read_open(agent: Agent, target: Target) -> list[Row]:
    """What nobody judged yet, of whole episodes only where verdicts are suggested; newest first."""
    rows = list(_read_decisions(agent, _OPEN, most=MOST_OPEN))
    return [*rows, *_read_episodes(agent, _OPEN_EPISODES, most=MOST_OPEN)] if target.kind == VERDICT else rows


def _read_decisions(agent: Agent, statement: str, *, most: int) -> Iterator[Row]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"workspace": agent.workspace_id, "agent": agent.id, "most": most})
        found = cursor.fetchall()
    yield from make_rows(agent, found)


def make_rows(agent: Agent, found: Sequence[tuple[Any, ...]]) -> Iterator[Row]:
    """found: id, agent version, state, options, action, a person's verdict and the corrected action of each."""
    versions = {version.id: version for version in agent.versions.all()}
    for pk, version, state, options, action, verdict, corrected in found:
        acted = loaded(action)
        right = acted if verdict == "confirmed" else loaded(corrected)
        yield Row(pk, versions[version], loaded(state), loaded(options), acted, verdict, right)


def _read_episodes(agent: Agent, statement: str, *, most: int) -> Iterator[Row]:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"workspace": agent.workspace_id, "agent": agent.id, "most": most})
        found = cursor.fetchall()
    for pk, query, response, verdict in found:
        if query or response:  # an erased one has no words left
            yield Row(pk, None, query, None, response, verdict)


def make_cases(agent: Agent, target: Target, rows: Sequence[Row]) -> list[Case]:
    """One for each row."""
    if target.kind == VERDICT:
        steps = _read_steps(agent, rows)
        return [Case(f"{text_of(row.state)} {text_of(row.action)} {steps.get(row.id, '')}".strip()) for row in rows]
    return [Case(text_of(row.state), _make_slates(target, row)) for row in rows]


def _make_slates(target: Target, row: Row) -> dict[str, Any]:
    state = row.state if isinstance(row.state, Mapping) else {}
    found = {}
    for part in target.parts:
        if part.items:
            items = _items_of(part, row, state)
            if len(set(items)) > 1:
                found[part.name] = make_slate(state, items)
    return found


def _items_of(part: Part, row: Row, state: Mapping[str, Any]) -> list[str]:
    if part.source:
        return [value for value in values_at(state, part.source) if isinstance(value, str)]
    version = row.version
    offered = row.options if row.options is not None or version is None else version.options
    return [value for value in offered or () if isinstance(value, str)]


def make_answer(target: Target, row: Row) -> dict[str, str] | None:
    """What the label says of each part; None where it says nothing that can be learnt."""
    if target.kind == VERDICT:
        said = _SAID.get(str(row.verdict))
        return None if said is None else {"": said}
    if target.kind == OPTION:
        return {"": row.right} if isinstance(row.right, str) else None
    if target.kind == FIRST:
        first = row.right[0] if isinstance(row.right, list) and row.right else None
        return {"": first} if isinstance(first, str) else None
    if not isinstance(row.right, Mapping):
        return None
    answer = {part.name: value_at(part, row.right) for part in target.parts}
    return {name: value for name, value in answer.items() if value is not None}


def value_at(part: Part, action: Mapping[str, Any]) -> str | None:
    """The value of a structured action's field, as `canonical` text; an item as it stands. A field that is not there
    counts as null."""
    value: Any = action
    for name in part.path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if part.items:
        return value if isinstance(value, str) else None
    return canonical(value)


def options_at(row: Row) -> Sequence[str]:
    """What the decision could choose, whichever version of the agent made it."""
    assert row.version is not None
    return choices_of(row.version, row.state, row.options).options or ()


def _read_steps(agent: Agent, rows: Sequence[Row]) -> dict[uuid.UUID, str]:
    """Of each row a word for each kind of step and how it ended: `tool_call_search_failed`."""
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for column in ("decision_id", "episode_id"):
        ids = [row.id for row in rows if row.is_episode == (column == "episode_id")]
        for start in range(0, len(ids), CHUNK):
            with connection.cursor() as cursor:
                known: dict[str, Any] = {"ids": ids[start : start + CHUNK], "workspace": agent.workspace_id}
                cursor.execute(_STEPS.format(column=column), known)
                for pk, kind, name, success in cursor.fetchall():
                    ended = {True: "succeeded", False: "failed"}.get(success, "")
                    found[pk].append("_".join(re.findall(r"\w+", f"{kind} {name} {ended}")))
    return {pk: " ".join(sorted(said))[:LONGEST_TEXT] for pk, said in found.items()}


def loaded(field: Any) -> Any:
    """Django's raw cursors leave jsonb as text."""
    return json.loads(field) if isinstance(field, str) else field
