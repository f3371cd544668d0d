"""A chat app from start to end, by the requests of docs/gateway.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from decisions.models import Decision, Feedback
from tests.api_client import ApiClient

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("gateway")]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "gateway.md"


def requests_of_the_page() -> dict[str, dict[str, Any]]:
    """By path, the bodies of the section."""
    section = PAGE.read_text().partition("## A chat app from start to end")[2].partition("\n## ")[0]
    found = re.findall(r"POST /api/v1/(\S+) +(\{.*?\})\n(?=POST|```)", section, re.DOTALL)
    return {path: json.loads(body) for path, body in found}


def test_each_request_of_the_page_is_taken(api: Any, ask: Any, serve: Any, settings: Any) -> None:
    server, admin, bodies = serve(), api("admin"), requests_of_the_page()
    origin = server.url.rpartition("/")[0]
    settings.BACKEND_URLS, settings.BACKEND_KEYS = [origin], {}
    assert admin.post("agents", bodies["agents"]).status_code == 201
    backend = admin.post("backends", bodies["backends"] | {"url": server.url, "key_variable": ""})
    assert backend.status_code == 201, backend.content
    version = admin.post("remote-versions", bodies["remote-versions"] | {"backend": backend.json()["id"]})
    assert version.status_code == 201, version.content
    key = admin.post("keys", bodies["keys"]).json()["token"]
    chat = {"model": "helper", "messages": [{"role": "user", "content": "How do I get to Oslo?"}]}
    answer = ask.post("/chat/completions", json=chat, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    verdict = ApiClient(key).post("feedback", bodies["feedback"] | {"decision_id": answer.json()["id"]})
    assert verdict.status_code == 201, verdict.content
    assert admin.post("datasets", bodies["datasets"]).status_code == 202
    said, decision = Feedback.objects.get(), Decision.objects.get()
    assert (said.metric, said.value, said.decision_id) == ("verdict", "confirmed", decision.id)
