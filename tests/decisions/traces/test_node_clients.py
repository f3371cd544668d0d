"""An agent of the Vercel AI SDK, as npm publishes it, traced by @vercel/otel and by the plain Node SDK's exporters,
which send chunked bodies, against the web process."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.decisions.traces.client_runs import PROGRAMS, run_traced
from tests.decisions.traces.weather_episode import ANSWER, check_episode
from tests.node import fetch_packages

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PLAIN = {
    "@opentelemetry/api": "1.9.1",
    "@opentelemetry/exporter-trace-otlp-http": "0.223.1",
    "@opentelemetry/exporter-trace-otlp-proto": "0.223.1",
    "@opentelemetry/sdk-trace-node": "2.12.1",
    "zod": "4",
}
VERCEL = {"@vercel/otel": "2.1.3"}
PACKAGES = {
    "5": {"ai": "5.0.277", **PLAIN},
    "6": {"ai": "6.0.325", **PLAIN, **VERCEL},
    "7": {"ai": "7.0.173", "@ai-sdk/otel": "1.0.173", **PLAIN, **VERCEL},
}
NODE = "22.23.3"
"""The oldest major version of node that the newest packages take; npm has it as a package."""
RUNS = [("5", "json"), ("6", "json"), ("6", "protobuf"), ("6", "vercel"), ("7", "protobuf"), ("7", "vercel")]


def node_for(version: str, node: str) -> str | Path:
    if version != "7" or _major(node) >= 22:
        return node
    _, modules = fetch_packages("node", {"node": NODE})
    newer = modules / "node" / "bin" / "node"
    if not newer.exists():
        pytest.skip("the AI SDK 7 needs node 22, and npm has none for this machine")
    return newer


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    found = re.match(r"v(\d+)", said)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(("version", "sender"), RUNS, ids=[" ".join(run) for run in RUNS])
def test_a_traced_agent_of_the_ai_sdk_becomes_an_episode(
    version: str, sender: str, web: str, api: Any, tmp_path: Path
) -> None:
    node, modules = fetch_packages(f"ai-sdk-{version}", PACKAGES[version])
    program = shutil.copy(PROGRAMS / "node_agent.mjs", modules.parent)  # where its imports are found
    command = [node_for(version, node), program, version, sender]
    said = run_traced(command, url=web, token=api("decisions:write").token, folder=tmp_path)
    assert said.strip() == ANSWER
    check_episode(agent="weather-agent")
