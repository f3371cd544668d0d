"""Dockerfile and .dockerignore. The image cannot be built in a test; what it copies and installs can be looked at."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

import pytest

from project.embedded.layout import PROJECT_ROOT
from tools.compose import load_compose


def dockerfile() -> list[list[str]]:
    text = (PROJECT_ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def is_let_in(path: str) -> bool:
    """.dockerignore, whose last line that fits decides."""
    found = True
    for line in (PROJECT_ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        here = any(fnmatch(part, pattern) for part in (path, path.split("/")[0]))
        deep = pattern.startswith("**/") and any(fnmatch(part, pattern[3:]) for part in path.split("/"))
        if here or deep:
            found = line.startswith("!")
    return found


def test_the_image_copies_what_is_there_all_of_our_code_and_nothing_else() -> None:
    copied = [source for words in dockerfile() if words[0] in {"COPY", "ADD"} for source in words[1:-1]]
    assert [source for source in copied if not (PROJECT_ROOT / source).exists()] == []
    assert [source for source in copied if not is_let_in(source)] == []
    code = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    code = [package for package in code if (PROJECT_ROOT / package).is_dir()]  # a client is no part of the server
    assert {*code, "templates", "static", "manage.py", "requirements"} <= set(copied)
    allowed = (PROJECT_ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in allowed if line.startswith("!")} == set(copied)


@pytest.mark.parametrize(
    "path", [".env", ".git/config", "var/secrets/secret_key", ".venv/bin/python", "tests/conftest.py"]
)
def test_what_is_an_instance_s_own_stays_out_of_the_image(path: str) -> None:
    assert not is_let_in(path)
    assert is_let_in("project/settings.py")
    assert not is_let_in("project/__pycache__/settings.cpython-312.pyc")


def test_the_image_installs_what_is_pinned_runs_as_nobody_special_and_holds_no_setting() -> None:
    lines = dockerfile()
    text = "\n".join(" ".join(words) for words in lines)
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    files = ("requirements/base.txt", '"requirements/$TORCH.txt"', "requirements/text.txt")
    assert f"--require-hashes {' '.join(f'-r {file}' for file in files)}" in text
    version = re.match(r"FROM python:3\.(\d+)-slim", text)
    assert version and int(version[1]) >= int(project["requires-python"].rsplit(".", 1)[1])
    assert [words[1:] for words in lines if words[0] == "USER"] == [["reckoner"]]
    assert lines[-1][0] == "USER"
    # A container's settings come from .env alone.
    assert not re.search(r"RECKONER_|DATABASE_URL|REDIS_URL|PASSWORD", text)
    for folder in ("artifacts", "runs", "run", "secrets"):
        assert f"/var/lib/reckoner/{folder}" in text
    arguments = {word.partition("=")[0] for words in lines if words[0] == "ARG" for word in words[1:]}
    used = {
        name for service in load_compose()["services"].values() for name in service.get("build", {}).get("args", {})
    }
    assert used <= arguments
