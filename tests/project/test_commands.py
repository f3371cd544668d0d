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
