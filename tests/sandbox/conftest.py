"""Where the sandbox cannot work, its tests are skipped and say what is missing; a wall that is open fails them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.canary import ensure_checked
from sandbox.errors import SandboxMissing

PACKAGE = Path(__file__).resolve().parents[2] / "sandbox"


@pytest.fixture(scope="session")
def boxes() -> None:
    try:
        ensure_checked()
    except SandboxMissing as missing:
        pytest.skip(f"no sandbox: {missing}")


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that every user of the machine can read, with a copy of the package: for processes of other users."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(PACKAGE, Path(folder, "sandbox"), ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(folder)
