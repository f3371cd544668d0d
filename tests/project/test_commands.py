"""What a management command loads before it does its work: seconds of CPU otherwise, for a key that takes none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import get_commands, load_command_class
from django.db import connection

from project.embedded.layout import PROJECT_ROOT

OURS = {"project", "training", "decisions", "models_registry", "jobs", "workspaces"}
# What checks, views and jobs need, and nothing that makes a key.
HEAVY = ("project.urls", "rest_framework.serializers", "drf_spectacular.openapi", "numpy", "scipy", "pydantic", "redis")
pytestmark = pytest.mark.slow
RUN = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", *sys.argv[1:]])
print(*(name for name in {HEAVY} if name in sys.modules))
"""


@pytest.mark.django_db(transaction=True)
def test_making_a_key_loads_neither_views_nor_jobs_nor_numbers(by: Any) -> None:
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    done = subprocess.run(
        [sys.executable, "-c", RUN.replace("{HEAVY}", repr(HEAVY)), "create_key", "an app", "--scope", "route:read"],
        cwd=PROJECT_ROOT,
        env=os.environ | {"DATABASE_URL": urlunsplit(database)},
        capture_output=True,
        text=True,
        check=True,
    )
    key, loaded = done.stdout.splitlines()
    assert len(key) > 40 and loaded == ""


def test_no_command_waits_for_the_checks() -> None:
    commands = [load_command_class(app, name) for name, app in get_commands().items() if app in OURS]
    assert len(commands) > 10
    assert [str(command) for command in commands if command.requires_system_checks] == []


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("RECKONER_KEEP_MONTHS", "many", "RECKONER_KEEP_MONTHS='many': give a whole number, such as 0"),
        ("RECKONER_SESSION_DAYS", "nan", "RECKONER_SESSION_DAYS='nan': give a number, such as 7"),
        ("RECKONER_DEBUG", "perhaps", "RECKONER_DEBUG='perhaps': give 1 or 0"),
        ("DATABASE_URL", "nowhere", "DATABASE_URL: is not an address; give postgresql://"),
        ("DATABASE_URL", "mysql://h/x", "DATABASE_URL: PostgreSQL 16 or newer is the only database"),
        ("RECKONER_VAR", "{file}", "Not a directory"),
    ],
)
def test_an_invalid_setting_ends_every_command_with_a_line(tmp_path: Any, name: str, value: str, part: str) -> None:
    (tmp_path / "file").touch()
    environment = {key: told for key, told in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    ended = subprocess.run(
        [sys.executable, "manage.py", "keys", "list"],
        cwd=PROJECT_ROOT,
        env=environment | {name: value.replace("{file}", str(tmp_path / "file"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr
    assert ended.stderr.startswith("Reckoner cannot start with these settings: ") and part in ended.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (["project.gateway", "--host", "nowhere.invalid"], 2),
        (["project.gateway", "--port", "70000"], 2),
        (["training.engine.server", "--artifacts", "{folder}", "--host", "nowhere.invalid"], 2),
        (["training.engine.server", "--artifacts", "{folder}", "--port", "70000"], 2),
        (["training.engine", "{folder}"], 2),
        (["training.engine.measure"], 2),
        (["training.engine.models.targets", "{folder}"], 2),
        (["training.engine.environments.folders", "{folder}"], 2),
        (["training.engine.served.art", "{folder}", "--out", "{folder}"], 2),
    ],
)
def test_a_program_that_cannot_do_it_says_why(tmp_path: Any, program: list[str], code: int) -> None:
    (tmp_path / "spec.json").write_bytes(b"\xff\0")
    ended = subprocess.run(
        [sys.executable, "-m", *(one.replace("{folder}", str(tmp_path)) for one in program)],
        cwd=PROJECT_ROOT,
        input="no question",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code and "Traceback" not in ended.stderr, ended.stderr
    assert ended.stderr or ended.stdout
