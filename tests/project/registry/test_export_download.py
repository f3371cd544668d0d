"""Downloading an exported model from its page."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.project.registry.experiment_world import at
from tools.factories import (
    AgentVersionFactory,
    ArtifactFactory,
    ExportJobFactory,
    JobFactory,
    ModelVersionFactory,
    put_files,
)
from workspaces.models import AuditEntry

FILES = {"config.json": '{"model_type": "qwen2"}', "model.safetensors": "w" * 5000}


@pytest.fixture
def export(agent: Any, store: Path) -> Any:
    stored = put_files(FILES)
    artifact = ArtifactFactory(workspace=agent.workspace, digest=stored.digest, size_bytes=stored.size_bytes)
    version = ModelVersionFactory(registered_model=agent.registered_model)
    return ExportJobFactory(version=version, state="ready", artifact=artifact, job=JobFactory())


def test_an_admin_downloads_its_files_and_the_audit_says_so(export: Any, admin: Any, page_client: Any) -> None:
    client, path = page_client(admin), at("export-download", export)
    page = client.get(at("version", export.version)).content.decode()
    assert path in page and "Download, 4.9\xa0KB" in page
    assert client.head(path)["Content-Length"] == client.get(path)["Content-Length"]
    answer = client.get(path)
    content = b"".join(answer.streaming_content)
    assert answer["Content-Type"] == "application/x-tar" and int(answer["Content-Length"]) == len(content)
    assert answer["Content-Disposition"] == 'attachment; filename="filer-1-merged.tar"'
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert set(tar.getnames()) == {f"filer-1-merged/{name}" for name in (*FILES, "Modelfile")}
    assert AuditEntry.objects.filter(action="export.downloaded", actor=admin.email).count() == 2


def test_a_program_downloads_the_same_files_and_the_agent_s_system_prompt(export: Any, agent: Any, api: Any) -> None:
    AgentVersionFactory(agent=agent, system_prompt="File notes.", temperature=0.5)
    client, path = api(), f"exports/{export.id}/download"
    size = int(client.request("HEAD", path)["Content-Length"])
    assert not AuditEntry.objects.filter(action="export.downloaded").exists()
    answer = client.get(path, Accept="image/png")
    content = b"".join(answer.streaming_content)
    assert (answer["Content-Type"], len(content)) == ("application/x-tar", size)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert set(tar.getnames()) == {f"filer-1-merged/{name}" for name in (*FILES, "Modelfile")}
        told = tar.extractfile("filer-1-merged/Modelfile")
        assert told is not None and told.read().decode() == (
            "# as filer v2 asks\n# trained on prompts of up to 64 tokens: longer ones were read without their middle\n"
            "FROM .\nPARAMETER temperature 0.5\nPARAMETER num_predict 16\n"
            'SYSTEM """File notes."""\n'
        )
    assert AuditEntry.objects.get(action="export.downloaded").actor == f"key:{client.key.prefix}"


def test_an_export_that_is_not_ready_is_a_conflict(export: Any, admin: Any, page_client: Any, api: Any) -> None:
    type(export).objects.update(state="queued", artifact=None)
    client = page_client(admin)
    assert client.get(at("export-download", export)).status_code == 409
    assert api().get(f"exports/{export.id}/download").status_code == 409
    assert at("export-download", export) not in client.get(at("version", export.version)).content.decode()
    assert not AuditEntry.objects.filter(action="export.downloaded").exists()


@pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
def test_others_download_nothing(
    persona: str, status: int, export: Any, other_workspace: Any, page_client: Any, request: Any
) -> None:
    client = page_client(request.getfixturevalue(persona))
    assert client.get(at("export-download", export)).status_code == status
    elsewhere = client.get(at("export-download", export, other_workspace.slug))
    assert elsewhere.status_code == 404
    shown = client.get(at("version", export.version))
    assert persona == "outsider" or ("Download" not in shown.content.decode() and shown.status_code == 200)
    assert not AuditEntry.objects.filter(action="export.downloaded").exists()
