"""The table of clients in docs/gateway.md has the versions that the tests run."""

import re
from pathlib import Path

import pytest

from tests.project.gateway.clients.running import PACKAGES
from tests.project.gateway.clients.test_clients import CLIENTS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "gateway.md"
ROW = re.compile(r"^\| `(?P<package>[^`]+)`[^|]*\| (?P<version>\d[\w.]+) \|", re.MULTILINE)


@pytest.mark.slow
def test_the_table_of_clients_has_the_versions_that_are_run() -> None:
    run = {tuple(text.split("==")) for client in CLIENTS if client.path.suffix == ".py" for text in client.requirements}
    python = {(name.partition("[")[0], version) for name, version in run}
    npm = {(name, version) for name, version in PACKAGES.items() if name not in ("zod", "@langchain/core")}
    assert set(ROW.findall(PAGE.read_text(encoding="utf-8"))) == python | npm
