"""Environments of a newer Python with packages of PyPI, for tests of what cannot stand beside ours: made once under
var/test. Without such a Python, or a way to the packages, tests are skipped and say why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.once import made_once

TRIED = range(12, 15)
"""Python 3.12 to 3.14: packages of others are slow to support a newer one."""
PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


@cache
def find_newer_python() -> Path | None:
    """The oldest of those that are new enough and work: RECKONER_TEST_PYTHON, or on PATH, or among pyenv's."""
    return next((Path(path) for path, version in _candidates() if _runs(path, version)), None)


def environment_with(name: str, *requirements: str, sources: tuple[Path, ...]) -> Path:
    """The interpreter of an environment that has the requirements; `sources` are the files that say which."""
    python = find_newer_python()
    if python is None:
        pytest.skip(
            "no Python 3.12 or newer in RECKONER_TEST_PYTHON, on PATH (python3.12, …) or among pyenv's versions"
        )

    def make(folder: Path) -> None:
        subprocess.run([python, "-m", "venv", folder], check=True, timeout=300, capture_output=True)
        if (fault := _install(folder, requirements)) is not None:
            pytest.skip(f"{' and '.join(requirements)} cannot be installed for {python}: {fault}")

    return made_once(name, make, sources=(Path(__file__), *sources)) / "bin" / "python"


def _install(folder: Path, requirements: tuple[str, ...]) -> str | None:
    """By uv, which takes a tenth of the time, or else by pip. What pip said where neither does it."""
    uv, python = Path(sys.prefix, "bin", "uv"), folder / "bin" / "python"
    if uv.exists():
        by_uv = [uv, "pip", "install", "--quiet", "--python", python, *requirements]
        if subprocess.run(by_uv, capture_output=True, timeout=900).returncode == 0:
            return None
    by_pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *requirements]
    done = subprocess.run(by_pip, capture_output=True, text=True, timeout=1800)
    return None if done.returncode == 0 else done.stderr.strip()[-300:]


def _candidates() -> Iterator[tuple[str, str]]:
    """Paths, each with the version that it is to be; "" is any that is new enough."""
    yield os.environ.get("RECKONER_TEST_PYTHON", ""), ""
    yield sys.executable, ""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in TRIED:
        yield shutil.which(f"python3.{minor}") or "", f"3.{minor}"
        for found in sorted(pyenv.glob(f"3.{minor}.*/bin/python")):
            yield str(found), f"3.{minor}"


def _runs(path: str, version: str) -> bool:
    """pyenv's shims may be on PATH for versions that are not chosen, and then only say so."""
    if not path:
        return False
    try:
        done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    said = done.stdout.strip()
    known = [f"3.{minor}" for minor in TRIED]
    return done.returncode == 0 and said in known and version in ("", said)
