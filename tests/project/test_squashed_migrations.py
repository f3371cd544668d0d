"""Instances that applied the migrations which squashed ones replace: all of them, or only some."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

REPLACED = {"workspaces": 11, "jobs": 2, "models_registry": 25, "decisions": 41, "training": 14}

pytestmark = pytest.mark.django_db


def squashed() -> dict[tuple[str, str], list[tuple[str, str]]]:
    loader = MigrationLoader(None)
    return {
        key: found.replaces for key, found in loader.disk_migrations.items() if found.replaces and key[0] in REPLACED
    }


def later() -> list[tuple[str, str]]:
    """Migrations that came after the squashed ones."""
    loader = MigrationLoader(None)
    return [key for key, found in loader.disk_migrations.items() if key[0] in REPLACED and not found.replaces]


@pytest.fixture
def recorder() -> MigrationRecorder:
    """Of a database with every replaced migration, and nothing newer."""
    recorder = MigrationRecorder(connection)
    for key in (*squashed(), *later()):
        recorder.record_unapplied(*key)
    return recorder


def test_every_earlier_migration_is_replaced_once() -> None:
    names = [name for replaced in squashed().values() for name in replaced]
    assert len(set(names)) == len(names)
    assert Counter(app for app, _ in names) == REPLACED


def test_an_instance_with_all_of_them_records_the_squashed_and_applies_what_is_newer(
    recorder: MigrationRecorder,
) -> None:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    assert {(migration.app_label, migration.name) for migration, _ in plan} == set(later()) != set()
    executor.check_replacements()
    assert squashed().keys() <= recorder.applied_migrations().keys()


@pytest.mark.parametrize("command", [["migrate"], ["bootstrap", "--migrate", "--no-demo"]])
@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ([("decisions", "0041_reward_specs_name_judges")], ["decisions.0001_ledger_and_labels"]),
        (
            [("decisions", "0006_partitions_of_steps"), ("training", "0014_exports_for_ollama")],
            ["decisions.0002_months_of_the_ledger", "training.0001_datasets_runs_and_suites"],
        ),
    ],
)
def test_an_instance_with_some_of_them_is_refused_before_anything_changes(
    recorder: MigrationRecorder,
    command: list[str],
    missing: list[tuple[str, str]],
    names: list[str],
    settings: Any,
    tmp_path: Path,
) -> None:
    settings.VAR = tmp_path
    (tmp_path / "log").mkdir()
    for key in missing:
        recorder.record_unapplied(*key)
    before = set(recorder.applied_migrations())
    with pytest.raises(CommandError, match="migrate it with the code of commit 35dcdb56 first") as refused:
        call_command(*command)
    assert all(name in str(refused.value) for name in names)
    assert set(recorder.applied_migrations()) == before


def test_what_no_model_says_is_in_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgname LIKE '%\\_append\\_only' AND tgparentid = 0")
        assert {name for (name,) in cursor.fetchall()} == {
            f"{table}_append_only"
            for table in (
                "decisions_agentversion",
                "decisions_feedback",
                "decisions_reward",
                "decisions_rewardspec",
                "workspaces_auditentry",
            )
        }
        cursor.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'agent_current_version_is_its_own'"
        )
        assert cursor.fetchall() == [
            (
                "FOREIGN KEY (current_version_id, id) REFERENCES decisions_agentversion(id, agent_id)"
                " DEFERRABLE INITIALLY DEFERRED",
            )
        ]
        cursor.execute(
            "SELECT attstorage::text FROM pg_attribute"
            " WHERE attrelid = 'workspaces_keptanswer'::regclass AND attname = 'body'"
        )
        assert cursor.fetchall() == [("e",)]
        cursor.execute(
            "SELECT partrelid::regclass::text, count(*) FROM pg_partitioned_table"
            " JOIN pg_inherits ON inhparent = partrelid GROUP BY 1"
        )
        assert {table for table, partitions in cursor.fetchall() if partitions >= 4} == {
            "decisions_decision", "decisions_step", "decisions_feedback", "decisions_reward",
        }  # fmt: skip
