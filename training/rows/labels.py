"""Reads what people's labels say of decisions: the right action of each, for labelled rows and preference pairs.

The verdict that counts says it, where a person gave it: a confirmed decision was right, a corrected or overridden one
has the correction. Verdicts of programs teach nothing here. A suggestion of the auto-labeler (`decisions.labelling.
suggesting`) teaches only where a dataset asks for it, and only of decisions without any verdict.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from decisions.agents.choices import choices_of, option_of
from decisions.agents.prompts import PromptError, make_prompt
from decisions.models import ActionSpaceKind, Agent, AgentVersion
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import ALL_FEEDBACK, FIRST_COUNTS, STANDS, VERDICT
from training.models import DatasetKind
from training.rows.negatives import MARK, draw_other
from training.rows.selection import ALL, FETCH, LEARNABLE, MATCHES, Filters, learnt_from, loaded
from training.rows.shapes_of.prompts import prompt_columns
from training.rows.shapes_of.ranking import write_answers
from training.rows.shapes_of.shapes import CHOICE, RANKING, shape_of
from training.rows.shapes_of.text import as_completion
from training.rows.splitting import task_of

LABEL, PERSON, SUGGESTION = "label", "human", "suggestion"
"""Where a row comes from: a reviewer's label, a person's verdict that an app sent, the auto-labeler."""
LEAST_CONFIDENCE = 0.95
"""Of suggestions that make rows, unless another is given."""
TOLD = f"""d.id, d.agent_version_id, d.action, d.options IS NOT NULL, {LEARNABLE}, v.verdict, v.source, l.id,
    l.corrected_action"""
SUGGESTED = "s.action, s.confidence, s.made_at"
JUDGED = f"""
  LEFT JOIN LATERAL (
    SELECT f.value #>> '{{}}' AS verdict, f.source, f.idempotency_key AS key FROM decisions_feedback f
     WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id AND f.metric = '{VERDICT}'
       AND {STANDS.format("f", ALL_FEEDBACK)}
     ORDER BY {FIRST_COUNTS.format("f")} LIMIT 1
  ) v ON true
  LEFT JOIN decisions_label l ON l.decision_id = d.id AND 'label:' || l.id = v.key
  LEFT JOIN decisions_labelsuggestion s
    ON s.decision_id = d.id AND v.verdict IS NULL AND s.confidence >= %(least_confidence)s::float8
"""  # noqa: S608 - our own names
"""SQL: the verdict that counts of the decision `d`, the label behind it, and a suggestion where there is no verdict."""
_ROWS = f"""
SELECT {TOLD}, {SUGGESTED}, d.state, d.options, d.unit, d.episode_id
  FROM decisions_decision d {JUDGED}
 WHERE d.agent_id = %(agent)s AND (%(version)s::uuid IS NULL OR d.agent_version_id = %(version)s)
   AND d.{NOT_ERASED} AND (%(unused_at)s::timestamptz IS NULL OR NOT {learnt_from()})
   AND (NOT %(with_propensity)s OR d.propensity IS NOT NULL)
   AND {MATCHES}
   AND (v.verdict IS NOT NULL OR s.id IS NOT NULL)
 ORDER BY d.id
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """What is asked of the ledger. `unused_at`: only decisions that no run had learnt from at that moment.
    `least_confidence`: suggestions at least so confident, from 0 to 1, make rows; None: none do. `negatives`: of
    preference pairs, the right option also stands against one that nobody chose (`training.rows.negatives`)."""

    kind: str
    agent_version: AgentVersion | None = None
    unused_at: dt.datetime | None = None
    least_confidence: float | None = None
    filters: Filters = ALL
    negatives: bool = False

    def parameters(self, agent: Agent) -> dict[str, Any]:
        return self.filters.parameters(agent) | {
            "agent": agent.id,
            "version": self.agent_version.id if self.agent_version is not None else None,
            "unused_at": self.unused_at,
            "least_confidence": self.least_confidence,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What the ledger says of one decision, as TOLD and SUGGESTED name it. `source` is that of the verdict;
    `learnable`: its answer is complete, or such are asked for that are not."""

    decision: uuid.UUID
    agent_version: uuid.UUID
    action: Any
    offered: bool
    learnable: bool
    verdict: str | None
    source: str | None
    label: uuid.UUID | None
    correction: Any
    suggestion: Any
    confidence: float | None
    made_at: dt.datetime | None

    @classmethod
    def read(cls, columns: tuple[Any, ...]) -> Told:
        row, version, action, offered, learnable, *said = columns
        verdict, source, label, correction, suggestion, confidence, made_at = said
        correction, suggestion = loaded(correction), loaded(suggestion)
        return cls(
            row, version, loaded(action), offered, learnable, verdict, source, label, correction, suggestion,
            confidence, made_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """The right action, and where it comes from: LABEL, PERSON or SUGGESTION."""

    right: Any
    source: str


def find_answer(told: Told, *, kind: str, version: AgentVersion, negatives: bool = False) -> Answer | str:
    """The answer that makes a row of this kind, or why there is none, a key of `training.datasets.preview.WHY`. With
    `negatives` a confirmed choice makes a pair, too."""
    if told.verdict is None:
        right, source = told.suggestion, SUGGESTION
        if right is None:
            return "feedback"
    elif told.source != PERSON:
        return "program"
    else:
        right = told.action if told.verdict == "confirmed" else told.correction
        source = LABEL if told.label is not None else PERSON
        if right is None:
            return "answer"
    if right == told.action and not told.learnable:
        return "incomplete"
    if version.action_space == ActionSpaceKind.CHOICE and version.options is None and not told.offered:
        return "options"
    pairs_confirmed = negatives and shape_of(version) is CHOICE
    if kind == DatasetKind.PREFERENCES and right == told.action and not pairs_confirmed:
        return "confirmed"
    return Answer(right, source)


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision with a verdict or a suggestion: its rows, or why it makes none. The rest is as of the decision."""

    told: Told
    rows: list[dict[str, Any]] | str
    state: Mapping[str, Any]
    unit: str | None
    episode: uuid.UUID | None


def read_label_rows(agent: Agent, question: LabelQuestion) -> Generator[Judged]:
    """Oldest first. Streams: close it (contextlib.closing), so that its cursor is not left to the collector of garbage,
    which may close it in the middle of another statement and wait for that for ever."""
    versions = {version.id: version for version in agent.versions.all()}
    with connection.chunked_cursor() as cursor:
        cursor.execute(_ROWS, question.parameters(agent))
        while chunk := cursor.fetchmany(FETCH):
            for *columns, state, options, unit, episode in chunk:
                told, state = Told.read(tuple(columns)), loaded(state)
                rows = _make_rows(told, versions[told.agent_version], question, state, loaded(options), unit)
                yield Judged(told, rows, state, unit, episode)


def _make_rows(
    told: Told, version: AgentVersion, question: LabelQuestion, state: Mapping[str, Any], options: Any, unit: str | None
) -> list[dict[str, Any]] | str:
    answer = find_answer(told, kind=question.kind, version=version, negatives=question.negatives)
    if isinstance(answer, str):
        return answer
    try:
        if question.kind == DatasetKind.PREFERENCES:
            rows = _write_pairs(told, version, state, options, answer.right, negatives=question.negatives)
        else:
            rows = _write_answer(told, version, state, options, answer.right)
    except PromptError:
        return "prompt"
    if isinstance(rows, str):
        return rows
    about: dict[str, Any] = {
        "source": answer.source,
        "label_id": str(told.label) if told.label is not None else None,
        "verdict": told.verdict,
        "group": task_of(state) or unit,
    }
    if question.least_confidence is not None:
        about |= {
            "confidence": told.confidence if answer.source == SUGGESTION else None,
            "classifier": told.made_at.isoformat() if answer.source == SUGGESTION and told.made_at else None,
        }
    return [row | about for row in rows]


def _write_answer(
    told: Told, version: AgentVersion, state: Mapping[str, Any], options: Any, right: Any
) -> list[dict[str, Any]] | str:
    """A labelled row; of a ranking, one for each item of which the label tells whether it belongs first. Raises
    PromptError."""
    shape = shape_of(version)
    if shape is RANKING:
        return write_answers(str(told.decision), version, state, options, right=right, done=told.action)
    row: dict[str, Any] = {"id": str(told.decision)}
    if shape is CHOICE:
        options = choices_of(version, state, options).options
        answer = option_of(version, right)
        if not options or answer not in options:
            return "options"
        row |= {"options": list(options), "answer": answer, "completion": answer}
    else:
        row |= {"completion": as_completion(right)}
    return [row | prompt_columns(make_prompt(version, state, options or ()))]


def _write_pairs(
    told: Told, version: AgentVersion, state: Mapping[str, Any], options: Any, right: Any, *, negatives: bool
) -> list[dict[str, Any]] | str:
    """The correction against what the agent did; with `negatives` also the right option against another one. Raises
    PromptError."""
    negative: str | None = None
    if shape_of(version) is CHOICE:
        options = choices_of(version, state, options).options
        chosen, rejected = option_of(version, right), option_of(version, told.action)
        if not options or chosen not in options:
            return "options"
        if negatives:
            negative = draw_other(options, [str(chosen), str(rejected)], seed=str(told.decision))
        if chosen == rejected and negative is None:
            return "confirmed"  # the correction was of what accompanies the choice
    else:
        chosen, rejected = as_completion(right), as_completion(told.action)
    pair: dict[str, Any] = {
        "id": str(told.decision),
        **prompt_columns(make_prompt(version, state, options or ())),
        "chosen": chosen,
    }
    rows = [] if chosen == rejected else [pair | {"rejected": rejected}]
    if negative is not None:
        rows.append(pair | {"id": f"{told.decision}/negative", "rejected": negative, MARK: True})
    return rows
