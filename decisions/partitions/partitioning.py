"""Creates tables partitioned by RANGE of a uuid7, and their months ahead of time.

The migration operation is here because a table cannot be partitioned afterwards. Beat calls `ensure_partitions` daily;
rows outside every month go to the default partition, so no row is refused.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import connection, transaction
from django.db.migrations.operations import CreateModel

from workspaces.storage.ids import uuid7_bound

PARTITIONED = {
    "decisions_decision": "id",
    "decisions_step": "id",
    "decisions_feedback": "decision_id",
    "decisions_reward": "decision_id",
}
MONTHS_AHEAD = 2


class CreatePartitionedModel(CreateModel):
    """CreateModel, but `PARTITION BY RANGE (partition_by)`, with a default partition.

    `own_primary_key=False` leaves the primary key out: a unique index on a partitioned table must hold the partition
    key, and Feedback's may be null, so its identity is a unique constraint on (id, decision) instead.
    """

    def __init__(
        self,
        name: str,
        fields: Any,
        options: Any = None,
        bases: Any = None,
        managers: Any = None,
        *,
        partition_by: str,
        own_primary_key: bool = True,
    ) -> None:
        super().__init__(name, fields, options, bases, managers)
        self.partition_by = partition_by
        self.own_primary_key = own_primary_key

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        name, args, kwargs = super().deconstruct()
        return name, list(args), {**kwargs, "partition_by": self.partition_by, "own_primary_key": self.own_primary_key}

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        sql, params = schema_editor.table_sql(model)
        if not self.own_primary_key:
            sql = sql.replace(" PRIMARY KEY", "", 1)
        table = schema_editor.quote_name(model._meta.db_table)
        default = schema_editor.quote_name(f"{model._meta.db_table}_default")
        schema_editor.execute(
            f"{sql} PARTITION BY RANGE ({schema_editor.quote_name(self.partition_by)})", params or None
        )
        schema_editor.execute(f"CREATE TABLE {default} PARTITION OF {table} DEFAULT")
        schema_editor.deferred_sql.extend(schema_editor._model_indexes_sql(model))


def month_start(moment: dt.datetime, months: int = 0) -> dt.datetime:
    """The first instant (UTC) of the month that lies `months` after the one of `moment`."""
    index = moment.year * 12 + moment.month - 1 + months
    return dt.datetime(index // 12, index % 12 + 1, 1, tzinfo=dt.UTC)


def partition_name(table: str, month: dt.datetime) -> str:
    return f"{table}_{month:%Y_%m}"


def partition_key(table: str) -> str | None:
    """The column that the table is partitioned by as it stands; None where it is not there.

    Asked of the database, since migrations call `ensure_partitions` on tables as they were.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT a.attname FROM pg_partitioned_table p"
            " JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]"
            " WHERE p.partrelid = to_regclass(%s)",
            [table],
        )
        found = cursor.fetchone()
    return found[0] if found else None


def ensure_partitions(now: dt.datetime, *, ahead: int = MONTHS_AHEAD) -> list[str]:
    """Makes the partitions of this month and the `ahead` next ones that are missing; returns their names.

    A month whose rows already lie in the default partition is left there: PostgreSQL would refuse to split it off.
    """
    made = []
    keys = {table: key for table in PARTITIONED if (key := partition_key(table)) is not None}
    for months in range(ahead + 1):
        start, end = month_start(now, months), month_start(now, months + 1)
        low, high = uuid7_bound(start), uuid7_bound(end)
        for table, key in keys.items():
            name = partition_name(table, start)
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass(%s)", [name])
                if cursor.fetchone()[0] is not None:
                    continue
                cursor.execute(  # names come from the table above, bounds are our own uuids
                    f'SELECT EXISTS (SELECT 1 FROM "{table}_default" WHERE "{key}" >= %s AND "{key}" < %s)',  # noqa: S608
                    [low, high],
                )
                if cursor.fetchone()[0]:
                    continue
                cursor.execute(
                    f"CREATE TABLE \"{name}\" PARTITION OF \"{table}\" FOR VALUES FROM ('{low}') TO ('{high}')"
                )
                made.append(name)
    return made
