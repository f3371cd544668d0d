"""Packages of npm's registry for tests, fetched once into var/test. Without node, or a way to it, tests are skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "var" / "test"


def fetch_package(package: str, version: str) -> tuple[str, Path]:
    """node's path, and the folder of `node_modules` with the package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node and npm on this machine")
    folder = FOLDER / package
    modules = folder / "node_modules"
    if not (modules / package).is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        quietly = ["--no-save", "--no-audit", "--no-fund", "--fetch-retries=0"]  # by default it tries for a minute
        command = [npm, "install", "--prefix", str(folder), *quietly, f"{package}@{version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"npm cannot fetch {package}: {done.stderr.strip()[-200:]}")
    return node, modules
