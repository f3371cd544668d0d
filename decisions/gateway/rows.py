"""The row of a decision that the gateway made, by `decide` or in a chat, and the statement that writes it alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from decisions.gateway.questions import Question
from decisions.ingest.decisions import DECISION_TABLE
from decisions.ingest.writer import Columns, Row, Table, insert_of
from models_registry.calls.records import CLOSED, Ending, closing
from workspaces.access.actors import Actor
from workspaces.storage.prepared import prepared_cursor

TABLE = Table(DECISION_TABLE.name, DECISION_TABLE.columns | {"token_ids": "jsonb", "logprobs": "jsonb"})


def decision_row(by: Actor, question: Question, *, observed_at: dt.datetime, **known: Any) -> Row:
    """What the question says, and the columns that are `known` beside it; null in all others."""
    item, current = question.item, question.current
    return (
        dict.fromkeys(TABLE.columns)
        | {
            "id": question.id,
            "workspace_id": by.workspace.id,
            "agent_id": current.agent.id,
            "agent_version_id": current.version.id,
            "episode_id": item.episode,
            "step_number": item.step_number,
            "unit": question.unit,
            "external_id": item.external_id,
            "item_ref": item.item_ref,
            "project_ref": item.project_ref,
            "user_ref": item.user_ref,
            "state": item.state,
            "model_version_id": question.served.id,
            "observed_at": observed_at,
        }
        | known
    )


def write_answered(*, by: Actor, columns: Columns, ending: Ending, now: dt.datetime) -> None:
    """A decision under a fresh id, and its closed call, in one statement: outside a transaction it is one of its own.
    Raises IntegrityError."""
    insert, rows = insert_of(TABLE, columns)
    with prepared_cursor() as cursor:
        cursor.execute(
            f"WITH decided AS ({insert}), {CLOSED} SELECT count(*) FROM closed",  # noqa: S608 - names of our own
            {"rows": rows, **closing(by=by, endings=[ending], now=now)},
        )
