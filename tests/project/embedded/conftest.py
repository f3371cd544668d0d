"""A directory for an instance: not pytest's own, which it closes to the user that PostgreSQL runs as."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from project.embedded import postgres
from project.embedded.layout import Layout
from project.embedded.postgres import Postgres
from project.embedded.processes import find_processes, reap
from tests.once import made_once


@pytest.fixture
def layout():
    """A fresh, empty instance directory; whatever a failed test left running is stopped."""
    var = Path(tempfile.mkdtemp(prefix="reckoner-test-")) / "var"
    layout = Layout(var.resolve())
    yield layout
    reap(layout, grace=3.0, patience=10.0)
    left = find_processes(layout)
    shutil.rmtree(var.parent, ignore_errors=True)
    assert left == []


@pytest.fixture
def cluster(layout):
    """The instance's PostgreSQL cluster as initdb would make it, copied from one that is kept."""

    def make(folder):
        os.chmod(folder, 0o755)
        Postgres(folder / "cluster", folder / "sockets").prepare()

    made = made_once("cluster", make, sources=(Path(postgres.__file__),)) / "cluster"
    layout.postgres.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(made), str(layout.postgres)], check=True)
