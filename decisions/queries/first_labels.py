"""Whether people's verdicts suffice to teach an agent its first model, and what is missing where they do not.

A verdict teaches where it names the right action: a confirmed decision does, and a correction. The gateway says so when
it refuses for want of a model; `training.loops.first_model` trains from them.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection

from decisions.agents.canonical import canonical
from decisions.agents.choices import choices_of, option_of
from decisions.models import ActionSpaceKind, Agent, AgentVersion
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import FIRST_COUNTS, STANDS, VERDICT

LOOK = 5_000
"""The newest so many decisions of each agent are looked at."""
LEAST = 30
"""Verdicts that name the right action: with fewer, hardly six could be held out."""
LEAST_ACTIONS, LEAST_OF_AN_ACTION = 2, 5
"""So many actions must be right that often: else there is nothing to tell apart."""
NAMED = 3
"""So many actions are named in a text."""
TEXT = "text"
"""Stands for every text: which one was right is nothing to count."""

# OFFSET 0 keeps the planner from hashing all feedback: each decision is one probe of an index.
_COUNTED = f"""
WITH newest AS MATERIALIZED (
  SELECT d.* FROM unnest(%(agents)s::uuid[]) AS asked(id)
   CROSS JOIN LATERAL (
     SELECT id, workspace_id, agent_id, agent_version_id, options, action FROM decisions_decision d
      WHERE d.agent_id = asked.id AND d.{NOT_ERASED} ORDER BY d.id DESC LIMIT {LOOK}
   ) d
), said AS MATERIALIZED (
  SELECT f.* FROM newest d
   CROSS JOIN LATERAL (
     SELECT id, workspace_id, decision_id, metric, value, correction, source, idempotency_key, supersedes, observed_at,
            recorded_at
       FROM decisions_feedback WHERE decision_id = d.id AND workspace_id = d.workspace_id OFFSET 0
   ) f
), judged AS (
  SELECT DISTINCT ON (f.decision_id) f.decision_id, f.source, f.value #>> '{{}}' AS verdict, f.idempotency_key AS key,
         f.correction
    FROM said f WHERE f.metric = '{VERDICT}' AND {STANDS.format("f", "said")}
   ORDER BY f.decision_id, {FIRST_COUNTS.format("f")}
), named AS (
  SELECT d.agent_id, d.agent_version_id, d.options, v.verdict = 'confirmed' AS confirmed,
         CASE v.verdict WHEN 'confirmed' THEN d.action ELSE
           coalesce((SELECT l.corrected_action FROM decisions_label l
                      WHERE l.decision_id = d.id AND 'label:' || l.id = v.key), v.correction) END AS right_action
    FROM judged v JOIN newest d ON d.id = v.decision_id WHERE v.source = 'human' AND v.verdict <> 'ignored'
)
SELECT agent_id, agent_version_id, options, right_action, confirmed, count(*) FROM named GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608 - numbers and names of ours


@dataclass(frozen=True, slots=True)
class FirstLabels:
    """Of one agent's newest decisions: how many `verdicts` of people there are, and of those that name the right
    action, how often each of the `actions` was right. `cannot`: why no number of verdicts would do; "" otherwise.
    `fixed`: every decision chooses among the same actions. `writes`: its actions are texts, of which those count that
    were confirmed; a new tiny model cannot write them."""

    agent: Agent
    verdicts: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    cannot: str = ""
    fixed: bool = True
    writes: bool = False

    @property
    def labels(self) -> int:
        """Verdicts that name the right action."""
        return sum(self.actions.values())

    @property
    def ready(self) -> bool:
        return not self.missing

    @property
    def missing(self) -> str:
        """What keeps a first model from being trained, and how much of it is needed, for people; "" where nothing
        does."""
        if self.cannot:
            return self.cannot
        if self.labels < LEAST:
            of = f"{self.labels:,} of {self.verdicts:,} verdicts name" if self.verdicts else "No verdict names"
            more = LEAST - self.labels
            if self.writes:
                of = (
                    f"{self.labels:,} of {self.verdicts:,} verdicts confirm" if self.verdicts else "No verdict confirms"
                )
                return f"{of} a text; a first model needs {LEAST}, so {more} more."
            return (
                f"{of} the right action; a first model needs {LEAST}, so {more} more. A confirmed decision names it,"
                " and so does a correction."
            )
        enough = [action for action, count in self.actions.items() if count >= LEAST_OF_AN_ACTION]
        if not self.fixed or len(enough) >= LEAST_ACTIONS:
            return ""
        most = ", ".join(f"{action}: {count}" for action, count in list(self.actions.items())[:NAMED])
        return (
            f"A first model needs at least {LEAST_ACTIONS} actions that were right {LEAST_OF_AN_ACTION} times each"
            f" ({most}). Confirm or correct decisions for which another action was right."
        )

    @property
    def rare(self) -> Sequence[str]:
        """Actions that were right so seldom that the model will hardly learn them."""
        rare = [name for name, count in self.actions.items() if count < LEAST_OF_AN_ACTION]
        return rare if self.fixed else []


def find_first_labels(agents: Sequence[Agent]) -> dict[uuid.UUID, FirstLabels]:
    """By agent. Two statements, however many agents there are; none without any."""
    if not agents:
        return {}
    versions = {version.id: version for version in AgentVersion.objects.filter(agent__in=agents).order_by("number")}
    newest = {version.agent_id: version for version in versions.values()}
    acting = {agent.id: versions.get(agent.current_version_id) or newest.get(agent.id) for agent in agents}
    cannot = {agent.id: _why_never(acting[agent.id]) for agent in agents}
    asked = [agent for agent in agents if not cannot[agent.id]]
    verdicts, actions = Counter[uuid.UUID](), defaultdict[uuid.UUID, Counter[str]](Counter)
    for agent_id, option, count in _count(asked, versions):
        verdicts[agent_id] += count
        if option is not None:
            actions[agent_id][option] += count
    return {
        agent.id: FirstLabels(
            agent,
            verdicts[agent.id],
            dict(actions[agent.id].most_common()),
            cannot[agent.id],
            fixed=_is_fixed(acting[agent.id]),
            writes=(version := acting[agent.id]) is not None and _writes(version),
        )
        for agent in agents
    }


def _count(
    agents: Sequence[Agent], versions: Mapping[uuid.UUID, AgentVersion]
) -> Iterator[tuple[uuid.UUID, str | None, int]]:
    """Agent, the option that was right (None where the verdict names none), and how often."""
    if not agents:
        return
    with connection.cursor() as cursor:
        cursor.execute(_COUNTED, {"agents": [agent.id for agent in agents]})
        for agent_id, version_id, offered, right, confirmed, count in cursor.fetchall():
            version = versions[version_id]
            if _writes(version):
                yield agent_id, TEXT if confirmed else None, count
            else:
                yield agent_id, _option(version, offered, right), count


def _option(version: AgentVersion, offered: str | None, right: str | None) -> str | None:
    """`offered` and `right` as a raw cursor gives them, in JSON."""
    action = json.loads(right) if right is not None else None
    if version.action_space == ActionSpaceKind.RANKING:
        return canonical(action) if isinstance(action, list) and action else None
    option = option_of(version, action)
    if version.action_space != ActionSpaceKind.CHOICE:
        return option  # the ledger has checked it by its schema
    known = json.loads(offered) if offered is not None else version.options or ()
    return option if option in known else None


def _is_fixed(version: AgentVersion | None) -> bool:
    """Whether the actions to choose among are those of the version, and depend on no state."""
    return version is not None and bool(choices_of(version, {}).options)


def _writes(version: AgentVersion) -> bool:
    """Whether its actions are texts, or objects that are written as such, and no choice."""
    return version.action_space != ActionSpaceKind.RANKING and choices_of(version, None).options is None


def _why_never(version: AgentVersion | None) -> str:
    return "It has no version yet. A version defines the prompt and the options." if version is None else ""
