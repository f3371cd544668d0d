"""A directory for an instance: not pytest's own, which it closes to the user that PostgreSQL runs as."""

import shutil
import tempfile
from pathlib import Path

import pytest

from project.embedded.layout import Layout
from project.embedded.processes import find_processes, reap


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
