"""Backends, calls and a version's page in a real browser: at every width, light and dark, and by the keyboard."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from models_registry.models import Alias, Call, ModelVersion
from models_registry.versions.services import move_alias
from tests.browser.accessibility import look_at
from tools.factories import (
    ArtifactFactory,
    BackendFactory,
    CallFactory,
    DeploymentFactory,
    ExportJobFactory,
    uuid7_at,
)


@pytest.fixture
def backends(scene: Any) -> list[Any]:
    """One that answers and is asked, and one that does not."""
    workspace, now = scene.agent.workspace, timezone.now()
    times = {"checked_at": now, "state_since": now - dt.timedelta(hours=5)}
    gpt = BackendFactory(
        workspace=workspace, name="gpt", url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY",
        capabilities=["json_schema", "stream"], price_in="0.15", price_out="0.6", state="up", **times,
    )  # fmt: skip
    vllm = BackendFactory(
        workspace=workspace, name="vllm-in-the-cellar", kind="vllm", state="down",
        error="vllm-in-the-cellar does not answer: ConnectError.", **times,
    )  # fmt: skip
    DeploymentFactory(version=scene.version, backend=gpt, remote_name="filer-2-of-november")
    DeploymentFactory(version=scene.version, backend=vllm, priority=1)
    for number in range(30):
        opened = now - dt.timedelta(minutes=7 * number)
        fields: dict[str, Any] = {"state": "answered", "served": scene.version, "backend": gpt, "cost": "0.00001335"}
        if number % 9 == 4:
            fields = {"state": "failed", "error": "The model server does not answer: ConnectError."}
        elif number % 5 == 3:
            fields |= {
                "served": scene.version.parent,
                "fallback": f"{scene.version}: no answer in 1 s",
                "backend": None,
            }
        closed = opened + dt.timedelta(milliseconds=80 + 17 * number)
        CallFactory(
            id=uuid7_at(opened), assigned=scene.version, opened_at=opened, closed_at=closed, tokens_in=61, tokens_out=7,
            **fields,
        )  # fmt: skip
    return [gpt, vllm]


def test_pages_of_the_registry_fit_and_are_accessible(
    tab: Any, owner: Any, by: Any, scene: Any, backends: list[Any], log_in: Any
) -> None:
    slug = scene.agent.workspace.slug
    move_alias(by=by, version=scene.version.parent, name="long-notes", reason="keeps more of the context")
    move_alias(by=by, version=scene.version, name="long-notes", reason="as good, and cheaper")
    version = ModelVersion.objects.get(id=scene.version.id)
    version.tags, version.notes = ["october", "corrections"], "Learnt from the corrections of October."
    version.approved_at, version.approved_by, version.approval_note = timezone.now(), "ada@example.org", "read 50"
    version.save()
    add_exports(version)
    log_in(tab, owner)
    found: list[str] = []
    for name, path in (
        ("backends", reverse("pages:backends", args=[slug])),
        ("backend", reverse("pages:backend", args=[slug, backends[0].id])),
        ("backend-form", reverse("pages:backend-edit", args=[slug, backends[1].id])),
        ("calls", reverse("pages:calls", args=[slug])),
        ("call", reverse("pages:call", args=[slug, Call.objects.exclude(fallback="").latest("id").id])),
        ("version", reverse("pages:version", args=[slug, version.id])),
    ):
        tab.goto(path)
        if name == "version":
            for summary in tab.locator("details.parity > summary").all():
                summary.click()
        found += look_at(tab, name)
    assert found == []


def add_exports(version: ModelVersion) -> None:
    """A file that decides as the version does, and one that was refused."""
    parity = {
        "runtime": "llama.cpp in xllamacpp 2026.10.11549", "prompts": "held_out", "rows": 500, "texts": 73,
        "tokens_differ": [], "tokens_differ_count": 0, "limits": {}, "decisions": 500, "equal_decisions": 1.0,
        "bound": 0.99, "positions": 500, "kl": 1.43e-5, "kl_largest": 6.87e-5, "top1": 1.0, "refusals": [],
        "version": {"accuracy": 0.652}, "export": {"accuracy": 0.652},
    }  # fmt: skip
    details = {"types": {"F32": 11, "Q8_0": 15}, "fallbacks": {}, "notes": []}
    report = {"parity": parity, "details": details, "seconds_written": 0.9, "seconds_compared": 39.6}
    artifact = ArtifactFactory(workspace=version.workspace, kind="export", size_bytes=755_264)
    ExportJobFactory(
        version=version, format="gguf", options={"quantisation": "Q8_0"}, options_hash="1", report=report,
        state="ready", artifact=artifact,
    )  # fmt: skip
    made = {"ollama": {"name": "filer:2-q8_0", "digest": "sha256:1f", "profile": {}}}
    ExportJobFactory(
        version=version, format="ollama", options_hash="3", report=report | made, state="ready", artifact=artifact,
        options={"quantisation": "Q8_0", "profile": "standard", "host": "http://ollama.example.org:11434"},
    )  # fmt: skip
    refusal = "94.2% of 500 decisions are the version's, below 95%"
    refused = parity | {"equal_decisions": 0.942, "bound": 0.95, "refusals": [refusal]}
    ExportJobFactory(
        version=version, format="gguf", options={"quantisation": "Q4_K_M"}, options_hash="2",
        report=report | {"parity": refused}, state="refused", error=refusal,
    )  # fmt: skip


def test_calls_are_narrowed_and_an_alias_is_reverted_by_one_click(
    tab: Any, owner: Any, by: Any, scene: Any, backends: list[Any], log_in: Any
) -> None:
    slug, parent = scene.agent.workspace.slug, scene.version.parent
    log_in(tab, owner).goto(reverse("pages:backends", args=[slug]))
    tab.get_by_role("link", name="Calls", exact=True).click()
    tab.get_by_label("State").select_option("failed")
    expect(tab.get_by_role("row")).to_have_count(1 + 3)
    expect(tab).to_have_url(f"{tab.url.partition('?')[0]}?state=failed&agent=&version=&backend=")
    for version in (parent, scene.version):
        move_alias(by=by, version=version, name="long-notes")
    tab.goto(reverse("pages:version", args=[slug, scene.version.id]))
    tab.get_by_role("button", name=f"Revert to {parent}").press("Enter")
    expect(tab.get_by_text(f"long-notes points at {parent} again.")).to_be_visible()
    assert Alias.objects.get(name="long-notes").version == parent
