"""The wheel that `make wheel` builds: all of our code, templates and static files, and a program that runs from it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from project.embedded.layout import PROJECT_ROOT

APPS = ("sandbox", "workspaces", "jobs", "models_registry", "decisions", "training", "project")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
pytestmark = pytest.mark.slow
LOOK = """
from django.conf import settings
from django.contrib.staticfiles import finders
from django.template.loader import get_template
print(settings.VAR, settings.BASE_DIR, finders.find("css/base.css"), get_template("base.html").origin.name, sep="\\n")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git knows: a build leaves its own folders beside the sources."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT_ROOT, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(source)], cwd=PROJECT_ROOT, input=listed, check=True)
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(target)], cwd=source, capture_output=True, check=True
    )
    [built] = target.glob("*.whl")
    return built


def tracked(*folders: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=PROJECT_ROOT, capture_output=True, check=True)
    return set(listed.stdout.decode().splitlines())


def test_the_wheel_holds_our_code_with_templates_and_static_files_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        [entry] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        program = archive.read(entry).decode()
    assets = {f"project/{path}" for path in tracked("templates", "static")}
    assert len(assets) > 100
    assert names == tracked(*APPS) | assets
    assert "reckoner = project.__main__:main" in program
    assert wheel.name.startswith("reckoner_ledger-")
    assert wheel.stat().st_size < 5_000_000


def test_it_runs_outside_a_checkout_with_its_data_in_the_user_s_own_folder(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    outside = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-m", "project", "shell", "--command", LOOK],
        cwd=tmp_path,
        env=outside,
        capture_output=True,
        text=True,
        check=True,
    )
    var, base, css, template = map(Path, done.stdout.splitlines()[-4:])
    assert var.is_relative_to(tmp_path / "home") and var.name == "reckoner"
    assert base == installed
    assert css == installed / "project" / "static" / "css" / "base.css"
    assert template == installed / "project" / "templates" / "base.html"
