"""Packages of npm's registry for tests, fetched once into var/test. Without node, or a way to it, tests are skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "var" / "test" / "npm"


def fetch_package(package: str, version: str) -> tuple[str, Path]:
    """node's path, and the folder of `node_modules` with the package."""
    return fetch_packages(package, {package: version})


def fetch_packages(name: str, versions: dict[str, str]) -> tuple[str, Path]:
    """node's path, and the folder of `node_modules` with the packages, made anew where a version is another one."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node and npm on this machine")
    folder = FOLDER / name
    wanted = [f"{package}@{version}" for package, version in sorted(versions.items())]
    fetched = folder / "fetched.txt"
    if not fetched.is_file() or fetched.read_text().split() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        quietly = ["--no-save", "--no-audit", "--no-fund", "--fetch-retries=0"]  # by default it tries for a minute
        done = subprocess.run(
            [npm, "install", "--prefix", folder, *quietly, *wanted], capture_output=True, text=True, timeout=300
        )
        if done.returncode != 0:
            pytest.skip(f"npm cannot fetch {' '.join(wanted)}: {done.stderr.strip()[-200:]}")
        fetched.write_text("\n".join(wanted))
    return node, folder / "node_modules"
