"""Erases a person from the ledger by tombstones, so that counts and experiments stay what they were.

Ids, times, propensities and numbers stay; states, actions, answers, notes and names go. The person's names become
pseudonyms, the same within one erasure, so that several decisions of one unit remain one cluster; their key is thrown
away at the end. Everything is set-based, and a second run changes nothing. The job in `training.lineage.erasure` calls
this, batch by batch, because it needs datasets and versions too.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connection
from django.db.models import TextChoices

from decisions.erasure.names import CHANGE, EPISODE, FEEDBACK, FINGERPRINT, ITEM, names_key
from decisions.models import ItemOutcome, Verdict
from decisions.models.tombstones import ERASED_HASH, ERASED_STATE, ERASED_TEXT, NOT_ERASED, PSEUDONYM_PREFIX
from models_registry.erasure import erase_exposures
from workspaces.models import Workspace


class PersonKind(TextChoices):
    UNIT = "unit", "Unit"
    USER = "user", "User reference"


@dataclass(frozen=True, slots=True)
class Person:
    """Who is to be erased: the `unit` of decisions, or the app's own `user_ref`."""

    kind: str
    value: str

    @property
    def unit(self) -> str | None:
        """Where the unit itself names the person."""
        return self.value if self.kind == PersonKind.UNIT else None


Counts = Mapping[str, int]
# Text that is not about anyone: the values of verdicts and of items' ends.
KEPT_TEXT = [*Verdict.values, *ItemOutcome.values]

_PSEUDONYM = "%(prefix)s || left(encode(sha256(%(secret)s || convert_to({0}, 'UTF8')), 'hex'), 32)"


def _pseudonym(column: str) -> str:
    """SQL: the pseudonym of a column; NULL, empty text and pseudonyms stay."""
    return (
        f"CASE WHEN {column} = '' OR {column} LIKE %(prefix)s || '%%' THEN {column}"
        f" ELSE {_PSEUDONYM.format(column)} END"
    )


def _words(column: str) -> str:
    """SQL: empty stays empty, everything else is one word."""
    return f"CASE WHEN {column} = '' THEN '' ELSE %(erased)s END"


# In a person's own episode, decisions without any name too, such as a trace's calls of models. A chat that came without
# a unit has its id as one.
MINE = f"""
SELECT {{columns}} FROM decisions_decision
 WHERE workspace_id = %(workspace)s AND {NOT_ERASED}
   AND ({{field}} = %(value)s
        OR coalesce(unit, '') IN ('', id::text) AND coalesce(user_ref, '') = ''
           AND episode_id IN (SELECT id FROM decisions_episode
                               WHERE workspace_id = %(workspace)s AND unit = ANY(%(units)s)))
"""  # noqa: S608
_DECISIONS = f"""
UPDATE decisions_decision
   SET state = %(state)s, options = NULL, action = to_jsonb(%(erased)s::text), next_state = NULL, completion = NULL,
       parameters = NULL,
       reasoning = NULL, alternatives = NULL, token_ids = NULL, logprobs = NULL, external_id = NULL,
       unit = {_pseudonym("unit")}, item_ref = {_pseudonym("item_ref")}, project_ref = {_pseudonym("project_ref")},
       user_ref = {_pseudonym("user_ref")}, content_hash = %(hash)s
 WHERE workspace_id = %(workspace)s AND id = ANY(%(ids)s) AND {NOT_ERASED}
"""  # noqa: S608
# The episodes of the steps that name these decisions: a trace's, where a chat's client named another episode.
_NAMED_IN = """
SELECT episode_id FROM decisions_step
 WHERE workspace_id = %(workspace)s AND decision_id = ANY(%(ids)s) AND episode_id IS NOT NULL
"""
# Episodes before decisions, in the order in which recording traces locks them; this waits for current writers.
_LOCK_EPISODES = f"""
SELECT id FROM decisions_episode
 WHERE id IN (SELECT episode_id FROM decisions_decision WHERE workspace_id = %(workspace)s AND id = ANY(%(ids)s)
              UNION {_NAMED_IN})
 ORDER BY id FOR UPDATE
"""  # noqa: S608
_FOUND = f"""
SELECT id, episode_id, exposure_id, item_ref, project_ref FROM decisions_decision
 WHERE workspace_id = %(workspace)s AND id = ANY(%(ids)s) AND {NOT_ERASED} FOR UPDATE
"""  # noqa: S608
_FEEDBACK = """
UPDATE decisions_feedback
   SET value = CASE WHEN jsonb_typeof(value) IN ('number', 'boolean') OR value #>> '{{}}' = ANY(%(kept)s) THEN value
                    ELSE to_jsonb(%(erased)s::text) END,
       correction = NULL, unit = {unit}, idempotency_key = NULL, content_hash = %(hash)s
 WHERE workspace_id = %(workspace)s AND {which} AND {left}
"""
_LABELS = """
UPDATE decisions_label SET note = '', corrected_action = NULL, correction_sent = NULL
 WHERE {which} AND (note <> '' OR corrected_action IS NOT NULL)
"""
# A skip holds nothing worth keeping, and its note may hold text.
_SKIPS = "DELETE FROM decisions_skip WHERE decision_id = ANY(%(ids)s)"
_SUGGESTIONS = "DELETE FROM decisions_labelsuggestion WHERE decision_id = ANY(%(ids)s)"
_SUGGESTIONS_OF_EPISODES = "DELETE FROM decisions_labelsuggestion WHERE episode_id = ANY(%(episodes)s)"
# What another version would have done holds the decision's words.
_SHADOWS = "DELETE FROM decisions_shadowanswer WHERE decision_id = ANY(%(ids)s)"
# Nobody is asked about it any more; who labelled it is still counted.
_QUEUES = (
    """UPDATE decisions_queueitem SET state = CASE WHEN state = 'resolved' THEN state ELSE 'dropped' END, gold = NULL
        WHERE {column} = ANY(%({ids})s)""",
    "UPDATE decisions_reservation SET draft = NULL WHERE subject = ANY(%({ids})s) AND draft IS NOT NULL",
)
# Components are numbers but for the reasons of failures, which may quote what could not be computed.
_REWARDS = """
UPDATE decisions_reward r SET components = s.components
  FROM (SELECT decision_id, spec_id, version,
               (SELECT coalesce(jsonb_object_agg(c.key, jsonb_strip_nulls(jsonb_build_object(
                         'value', CASE WHEN jsonb_typeof(c.value -> 'value') = 'number' THEN c.value -> 'value' END,
                         'error', CASE WHEN c.value ? 'error' THEN %(erased)s::text END))), '{}'::jsonb)
                  FROM jsonb_each(components) c) AS components
          FROM decisions_reward WHERE decision_id = ANY(%(ids)s)) s
 WHERE r.decision_id = s.decision_id AND r.spec_id = s.spec_id AND r.version = s.version
   AND r.components IS DISTINCT FROM s.components
"""
_STEPS = f"""
UPDATE decisions_step
   SET name = {_words("name")}, external_id = NULL, parent = NULL, arguments = NULL, result = NULL,
       error = {_words("error")}, reasoning_type = {_words("reasoning_type")}, content = {_words("content")},
       insights = NULL, issues = NULL, attributes = NULL, content_hash = %(hash)s
 WHERE workspace_id = %(workspace)s AND {NOT_ERASED}
   AND (decision_id = ANY(%(ids)s) OR (decision_id IS NULL AND episode_id = ANY(%(episodes)s)))
"""  # noqa: S608
# Names that make requests repeatable leave a fingerprint, so that repeats are answered `erased`.
_REMEMBER = f"""
INSERT INTO decisions_erasedname (id, workspace_id, target)
SELECT {FINGERPRINT.format("%(kind)s || ':' || {name}")}, %(workspace)s, {{target}}
  FROM {{table}} WHERE workspace_id = %(workspace)s AND {{which}}
ON CONFLICT (id) DO NOTHING
"""  # noqa: S608
_EPISODE_NAMES = _REMEMBER.format(
    name="agent_id || ':' || external_id",
    target="id",
    table="decisions_episode",
    which="id = ANY(%(episodes)s) AND external_id NOT IN ('', %(prefix)s || id)",
)
_FEEDBACK_KEYS = _REMEMBER.format(
    name="length(unit) || ':' || unit || ':' || idempotency_key",
    target="NULL::uuid",
    table="decisions_feedback",
    which="decision_id IS NULL AND unit = ANY(%(units)s) AND idempotency_key IS NOT NULL",
)
_ITEM_REFS = _REMEMBER.format(name="ref", target="NULL::uuid", table="decisions_item", which="id = ANY(%(item_ids)s)")
_CHANGE_NAMES = _REMEMBER.format(
    name="external_id",
    target="NULL::uuid",
    table="decisions_statuschange",
    which="(item_id = ANY(%(item_ids)s) OR decision_id = ANY(%(ids)s)) AND external_id IS NOT NULL",
)
EPISODE_IS_ERASED = """(
       external_id = %(prefix)s || id AND query IN ('', %(erased)s) AND final_response IN ('', %(erased)s)
       AND (unit = '' OR unit LIKE %(prefix)s || '%%') AND (session = '' OR session LIKE %(prefix)s || '%%'))"""
"""SQL: nothing is left of an episode since an earlier erasure."""
# The trace's id is not about anyone, and prevents a second episode when the trace is sent again.
_EPISODES = f"""
UPDATE decisions_episode
   SET external_id = %(prefix)s || id,
       session = {_pseudonym("session")}, unit = {_pseudonym("unit")},
       query = {_words("query")}, final_response = {_words("final_response")}
 WHERE workspace_id = %(workspace)s AND id = ANY(%(episodes)s)
   AND NOT {EPISODE_IS_ERASED}
"""  # noqa: S608
# An item or a project is erased with its last decision that is not erased yet.
_ALONE = f"""
SELECT i.id, i.project_ref FROM decisions_item i
 WHERE i.workspace_id = %(workspace)s AND i.ref = ANY(%(items)s)
   AND NOT EXISTS (SELECT 1 FROM decisions_decision d
                    WHERE d.workspace_id = i.workspace_id AND d.item_ref = i.ref AND d.{NOT_ERASED})
 ORDER BY i.id FOR UPDATE
"""  # noqa: S608
_ITEMS = f"""
UPDATE decisions_item i
   SET ref = CASE WHEN EXISTS (SELECT 1 FROM decisions_item o WHERE o.workspace_id = i.workspace_id
                                  AND o.ref = {_pseudonym("i.ref")}) THEN {_pseudonym("i.ref")} || ':' || i.id
                  ELSE {_pseudonym("i.ref")} END,
       title = {_words("title")}, labels = '[]', project_ref = {_pseudonym("project_ref")}
 WHERE i.id = ANY(%(item_ids)s)
"""  # noqa: S608
_PROJECTS = f"""
UPDATE decisions_project p
   SET ref = CASE WHEN EXISTS (SELECT 1 FROM decisions_project o WHERE o.workspace_id = p.workspace_id
                                  AND o.ref = {_pseudonym("p.ref")}) THEN {_pseudonym("p.ref")} || ':' || p.id
                  ELSE {_pseudonym("p.ref")} END,
       name = {_words("name")}
 WHERE p.workspace_id = %(workspace)s AND p.ref = ANY(%(projects)s)
   AND NOT EXISTS (SELECT 1 FROM decisions_decision d
                    WHERE d.workspace_id = p.workspace_id AND d.project_ref = p.ref AND d.{NOT_ERASED})
   AND NOT EXISTS (SELECT 1 FROM decisions_item i WHERE i.workspace_id = p.workspace_id AND i.project_ref = p.ref)
"""  # noqa: S608
_CHANGES = f"""
UPDATE decisions_statuschange SET external_id = NULL, correction = NULL, content_hash = %(hash)s
 WHERE workspace_id = %(workspace)s AND (item_id = ANY(%(item_ids)s) OR decision_id = ANY(%(ids)s)) AND {NOT_ERASED}
"""  # noqa: S608
# Units of the person that no decision names any more: tombstones hold their pseudonyms.
_UNITS = f"""
WITH u AS (
  SELECT unit FROM decisions_feedback
   WHERE workspace_id = %(workspace)s AND decision_id IS NULL AND unit IS NOT NULL AND unit NOT LIKE %(prefix)s || '%%'
  UNION
  SELECT unit FROM decisions_episode
   WHERE workspace_id = %(workspace)s AND unit <> '' AND unit NOT LIKE %(prefix)s || '%%'
), e AS (
  SELECT DISTINCT unit FROM decisions_decision
   WHERE workspace_id = %(workspace)s AND content_hash = %(hash)s AND unit LIKE %(prefix)s || '%%'
), named AS MATERIALIZED (
  SELECT u.unit FROM u JOIN e ON e.unit = {_PSEUDONYM.format("u.unit")}
)
SELECT unit FROM u WHERE unit = %(value)s
UNION
SELECT n.unit FROM named n
 WHERE NOT EXISTS (SELECT 1 FROM decisions_decision d WHERE d.workspace_id = %(workspace)s AND d.unit = n.unit)
"""  # noqa: S608

# Written by transactions that checked before the decision was erased and committed after it.
_LATE = f"""
SELECT d.id FROM decisions_decision d
 WHERE d.workspace_id = %(workspace)s AND d.content_hash = %(hash)s AND d.{{field}} = %(pseudonym)s
   AND (EXISTS (SELECT 1 FROM decisions_feedback f WHERE f.decision_id = d.id AND f.{NOT_ERASED})
        OR EXISTS (SELECT 1 FROM decisions_step s WHERE s.decision_id = d.id AND s.{NOT_ERASED})
        OR EXISTS (SELECT 1 FROM decisions_label l
                    WHERE l.decision_id = d.id AND (l.note <> '' OR l.corrected_action IS NOT NULL))
        OR EXISTS (SELECT 1 FROM decisions_skip k WHERE k.decision_id = d.id))
"""  # noqa: S608
_KINDS_OF_UNIT = """
SELECT DISTINCT a.unit FROM decisions_decision d JOIN decisions_agent a ON a.id = d.agent_id
 WHERE d.workspace_id = %(workspace)s AND d.content_hash = %(hash)s AND d.unit = %(pseudonym)s
"""
UNITS_WITH_ROWS = {"item": "items", "project": "projects"}
"""What an agent may call its unit, where the unit's name is the reference of a row."""


def field_of(person: Person) -> str:
    """The column of decisions that names them."""
    return "unit" if person.kind == PersonKind.UNIT else "user_ref"


def _run(cursor: Any, statement: str, known: Mapping[str, Any]) -> int:
    cursor.execute(statement, known)
    return int(cursor.rowcount)


def _parameters(workspace: Workspace, secret: bytes) -> dict[str, Any]:
    return {
        "workspace": workspace.id,
        "secret": secret,
        "prefix": PSEUDONYM_PREFIX,
        "erased": ERASED_TEXT,
        "state": msgspec.json.encode(ERASED_STATE).decode(),
        "hash": ERASED_HASH,
        "kept": KEPT_TEXT,
        "names_key": names_key(workspace.id),
    }


def hold_off_erasures(workspace: Workspace) -> None:
    """Until the transaction ends no batch of an erasure is committed in this workspace. For those who copy the
    ledger's content and must be found by the next batch: batches wait for them, and they for a batch."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))", [f"erasure:{workspace.id}"])


def wait_for_copies(workspace: Workspace) -> None:
    """The other side: one batch at a time, and none while somebody copies. Call first thing in the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"erasure:{workspace.id}"])


def pseudonym_of(person: Person, secret: bytes) -> str:
    """As the statements make it."""
    return PSEUDONYM_PREFIX + hashlib.sha256(secret + person.value.encode()).hexdigest()[:32]


def person_parameters(workspace: Workspace, person: Person, secret: bytes | None = None) -> dict[str, Any]:
    """The parameters of MINE. Episodes are named by units only."""
    units = [] if person.unit is None else [person.unit, *([pseudonym_of(person, secret)] if secret else [])]
    return {"workspace": workspace.id, "value": person.value, "units": units}


def count_decisions(*, workspace: Workspace, person: Person) -> int:
    """Decisions that still say something of the person. One walk over the workspace: no index serves units."""
    with connection.cursor() as cursor:
        cursor.execute(MINE.format(columns="count(*)", field=field_of(person)), person_parameters(workspace, person))
        return int(cursor.fetchone()[0])


def find_decisions(
    *, workspace: Workspace, person: Person, after: uuid.UUID | None, size: int, secret: bytes | None = None
) -> Sequence[uuid.UUID]:
    """The next `size` ids in order behind `after`: all batches together walk the workspace once. With the `secret` of
    an erasure under way, episodes that an earlier batch renamed are still the person's."""
    statement = MINE.format(columns="id", field=field_of(person)) + " AND id > %(after)s ORDER BY id LIMIT %(size)s"
    known = person_parameters(workspace, person, secret) | {"after": after or uuid.UUID(int=0), "size": size}
    with connection.cursor() as cursor:
        cursor.execute(statement, known)
        return [row[0] for row in cursor.fetchall()]


def erase_decisions(*, workspace: Workspace, ids: Iterable[uuid.UUID], secret: bytes) -> Counter[str]:
    """Tombstones for these decisions and all that hangs on them; how many rows changed, by kind.

    Call inside a transaction. Decisions of another workspace, and those erased before, are left alone.
    """
    known = _parameters(workspace, secret)
    counts: Counter[str] = Counter()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('reckoner.erasing', 'on', true)")
        known["ids"] = list(ids)
        cursor.execute(_LOCK_EPISODES, known)
        cursor.execute(_FOUND, known)
        found = cursor.fetchall()
        own, episodes, exposures, items, projects = ([*{row[at] for row in found} - {None}] for at in range(5))
        known |= {"ids": own, "items": items, "projects": projects}
        cursor.execute(_NAMED_IN, known)
        known["episodes"] = [*{*episodes, *(row[0] for row in cursor.fetchall())}]
        counts["decisions"] = _run(cursor, _DECISIONS, known)
        counts += _erase_what_hangs_on(cursor, known)
        counts += _erase_episodes(cursor, known)
        counts += _erase_items(cursor, known)
        # An exposure is erased with its last decision that is not erased yet.
        cursor.execute(
            f"""SELECT e.id FROM unnest(%(exposures)s::uuid[]) e(id)
                 WHERE NOT EXISTS (SELECT 1 FROM decisions_decision d WHERE d.exposure_id = e.id AND d.{NOT_ERASED})""",  # noqa: S608
            {"exposures": exposures},
        )
        alone = [row[0] for row in cursor.fetchall()]
        cursor.execute("SELECT set_config('reckoner.erasing', 'off', true)")
    counts.update(erase_exposures(workspace=workspace, ids=alone, unit=None, secret=secret, prefix=PSEUDONYM_PREFIX))
    return counts


def _erase_what_hangs_on(cursor: Any, known: dict[str, Any]) -> Counter[str]:
    """Feedback on these decisions, their labels, skips, places in queues and rewards."""
    counts: Counter[str] = Counter()
    feedback = _FEEDBACK.format(which="decision_id = ANY(%(ids)s)", unit="unit", left=NOT_ERASED)
    counts["feedback"] = _run(cursor, feedback, known)
    counts["labels"] = _run(cursor, _LABELS.format(which="decision_id = ANY(%(ids)s)"), known)
    cursor.execute(_SKIPS, known)
    cursor.execute(_SUGGESTIONS, known)
    cursor.execute(_SHADOWS, known)
    for statement in _QUEUES:
        cursor.execute(statement.format(column="decision_id", ids="ids"), known)
    counts["rewards"] = _run(cursor, _REWARDS, known)
    return counts


def _erase_items(cursor: Any, known: dict[str, Any]) -> Counter[str]:
    """Items and projects that nobody else's decision is about, and changes of status of these items or by these
    decisions."""
    counts: Counter[str] = Counter()
    cursor.execute(_ALONE, known)
    alone = cursor.fetchall()
    projects = [*known["projects"], *({row[1] for row in alone} - {""})]
    known = dict(known, item_ids=[row[0] for row in alone], projects=projects)
    cursor.execute(_CHANGE_NAMES, known | {"kind": CHANGE})
    counts["status_changes"] = _run(cursor, _CHANGES, known)
    cursor.execute(_ITEM_REFS, known | {"kind": ITEM})
    counts["items"] = _run(cursor, _ITEMS, known)
    counts["projects"] = _run(cursor, _PROJECTS, known)
    return counts


def _erase_episodes(cursor: Any, known: dict[str, Any]) -> Counter[str]:
    """Episodes with their steps, and the feedback, labels and places in queues on them. Steps of other people's
    decisions in them stay."""
    counts: Counter[str] = Counter()
    cursor.execute(_EPISODE_NAMES, known | {"kind": EPISODE})
    counts["steps"] = _run(cursor, _STEPS, known)
    counts["episodes"] = _run(cursor, _EPISODES, known)
    feedback = _FEEDBACK.format(which="episode_id = ANY(%(episodes)s)", unit="unit", left=NOT_ERASED)
    counts["feedback"] = _run(cursor, feedback, known)
    counts["labels"] = _run(cursor, _LABELS.format(which="episode_id = ANY(%(episodes)s)"), known)
    cursor.execute(_SUGGESTIONS_OF_EPISODES, known)
    for statement in _QUEUES:
        cursor.execute(statement.format(column="episode_id", ids="episodes"), known)
    return counts


def erase_without_decisions(*, workspace: Workspace, person: Person, secret: bytes) -> Counter[str]:
    """What names the person without a decision: feedback on units, episodes, exposures; items and projects that were
    the unit itself; and what was still being written when its decision was erased. Call inside a transaction, behind
    the last `erase_decisions`, with the same secret."""
    known = _parameters(workspace, secret) | {"value": person.unit, "pseudonym": pseudonym_of(person, secret)}
    counts: Counter[str] = Counter()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('reckoner.erasing', 'on', true)")
        cursor.execute(_LATE.format(field=field_of(person)), known)
        late: dict[str, Any] = {"ids": [row[0] for row in cursor.fetchall()], "episodes": []}
        if late["ids"]:
            counts += _erase_what_hangs_on(cursor, known | late)
            counts["steps"] = _run(cursor, _STEPS, known | late)
        cursor.execute(_UNITS, known)
        units = [row[0] for row in cursor.fetchall()]
        known |= {"units": units, "ids": []}
        cursor.execute(_FEEDBACK_KEYS, known | {"kind": FEEDBACK})
        which = "decision_id IS NULL AND unit = ANY(%(units)s)"
        counts["feedback"] += _run(cursor, _FEEDBACK.format(which=which, unit=_pseudonym("unit"), left="true"), known)
        cursor.execute(
            "SELECT id FROM decisions_episode WHERE workspace_id = %(workspace)s AND unit = ANY(%(units)s)"
            " ORDER BY id FOR UPDATE",
            known,
        )
        counts += _erase_episodes(cursor, known | {"episodes": [row[0] for row in cursor.fetchall()]})
        if person.unit is not None:
            cursor.execute(_KINDS_OF_UNIT, known)
            kinds = {row[0] for row in cursor.fetchall()}
            things: dict[str, Any] = {
                name: [person.unit] if kind in kinds else [] for kind, name in UNITS_WITH_ROWS.items()
            }
            counts += _erase_items(cursor, known | things)
        cursor.execute("SELECT set_config('reckoner.erasing', 'off', true)")
    if person.unit is not None:
        counts.update(
            erase_exposures(workspace=workspace, ids=[], unit=person.unit, secret=secret, prefix=PSEUDONYM_PREFIX)
        )
    return counts
