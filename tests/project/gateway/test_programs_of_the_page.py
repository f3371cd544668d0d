"""The programs that *Connect an app* shows for an agent that chats, run as they are copied."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from decisions.models import Decision, Feedback
from project.pages.connect import connect_app, write_snippets
from tests.node import fetch_packages
from tests.project.gateway.clients.running import PACKAGES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway"), pytest.mark.slow]


@pytest.mark.parametrize("language", ["curl", "Python", "JavaScript"])
def test_it_chats_and_confirms(
    language: str, gateway: Any, live_server: Any, by: Any, helper: Any, settings: Any, tmp_path: Path
) -> None:
    agent, _, _ = helper
    settings.GATEWAY_URL = gateway.url
    made = connect_app(by=by, name="app", scopes=["route:read", "feedback:write"], agent=agent)
    assert made.asks and made.lacking == ()
    snippets = write_snippets(url=live_server.url, token=made.made.token, agent=agent, asks=True)
    snippet = next(one for one in snippets if one.language == language)
    (tmp_path / snippet.file).write_text(snippet.text)
    if language == "JavaScript":
        node, modules = fetch_packages("clients", PACKAGES)
        (tmp_path / "node_modules").symlink_to(modules)
        command = [node, snippet.file]
    else:
        command = [shutil.which("sh") or "sh" if language == "curl" else sys.executable, snippet.file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    decision = Decision.objects.get()
    assert decision.unit == "example-1" and decision.id.hex in done.stdout.replace("-", "")
    assert [(one.decision_id, one.value) for one in Feedback.objects.all()] == [(decision.id, "confirmed")]
