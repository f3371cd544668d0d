"""A version's GGUF in Ollama: uploaded by its digest, made, listed, switched and deleted by the command."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import JobState
from jobs.runner import run_job
from models_registry.models import ModelVersion
from models_registry.versions.services import store_artifact
from tests.training.ollama_stub import OllamaStub
from tools.factories import AgentVersionFactory, ExportJobFactory
from training.engine.spec.export_formats import hash_options
from training.models import ExportJob
from workspaces.models import Scope


@pytest.fixture
def export(base_version: ModelVersion, by: Any, tiny_run: Path, tmp_path: Path) -> ExportJob:
    """Ready, as the engine writes it."""
    from training.engine.export import gguf_export
    from training.engine.spec.export_spec import ExportPlan
    from training.engine.spec.run_spec import ModelSource

    folder = tmp_path / "export"
    folder.mkdir()
    plan = ExportPlan.model_validate({"format": "gguf", "quantisation": "Q8_0"})
    source = ModelSource(path=str(tiny_run / "attempts" / "1" / "model"))
    details = gguf_export.write(source, folder, plan)
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="export", meta={})
    options = {"quantisation": "Q8_0"}
    return ExportJobFactory(
        version=base_version, format="gguf", options=options, options_hash=hash_options(options), state="ready",
        artifact=artifact, report={"details": details},
    )  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OllamaStub]:
    stub = OllamaStub(tmp_path)
    yield stub
    stub.close()


def run(*arguments: Any) -> dict[str, Any]:
    told = StringIO()
    call_command("ollama", *map(str, arguments), "--json", stdout=told)
    return dict(json.loads(told.getvalue()))


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_version_is_deployed_listed_switched_and_deleted(
    export: ExportJob, server: OllamaStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    AgentVersionFactory(agent=export.version.registered_model.agents.get(), system_prompt="Answer with a folder.")
    at, model = ("--host", server.url), f"{export.version.registered_model.name}:1"
    done = run("deploy", "--model", model, "--quantization", "Q8_0", "--profile", "busy", "--output", tmp_path, *at)
    assert done["name"] == f"{model}-q8_0"
    made = server.models[done["name"]]
    assert made["tensors"] > 10 and made["digest"] == done["digest"]
    assert made["system"] == "Answer with a folder."
    assert (
        made["template"] == export.report["details"]["ollama"]["template"]
        and "{{ range .Messages }}" in made["template"]
    )
    positions = export.report["details"]["positions"]
    assert made["parameters"]["num_ctx"] == min(4096, positions) and made["parameters"]["num_predict"] > 0
    assert done["profile"]["max_prompt_tokens"] == 64 and done["profile"]["context"] >= 64
    written = json.loads((tmp_path / "hosting_profile.json").read_text())
    assert written == done["profile"]
    assert written["environment"] == {"OLLAMA_NUM_PARALLEL": "8", "OLLAMA_FLASH_ATTENTION": "1"}
    run("switch", "--name", "filer:champion", "--to", done["name"], *at)
    assert [one["name"] for one in run("list", *at)["models"]] == sorted(["filer:champion", done["name"]])
    run("delete", "--name", "filer:champion", *at)
    assert list(server.models) == [done["name"]]
    assert "not found" in refused(capsys, "switch", "--name", "filer:champion", "--to", "filer:9", *at)
    assert "not found" in refused(capsys, "delete", "--name", "filer:champion", *at)
    assert list(server.models) == [done["name"]]


@pytest.mark.django_db(transaction=True)
def test_an_export_by_page_or_api_ends_at_the_instance_s_server(
    export: ExportJob,
    server: OllamaStub,
    api: Any,
    admin: Any,
    page_client: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version, client = export.version, api(Scope.ADMIN)
    path, asked = f"/api/v1/versions/{version.id}/export", {"format": "ollama", "quantisation": "Q8_0"}
    page = reverse("pages:version", args=[version.workspace.slug, version.id])

    def faults(**more: Any) -> list[Any]:
        answer = client.post(path, asked | more)
        assert answer.status_code == 400
        return [(one["field"], one["reason"]) for one in answer.json()["error"]["fields"]]

    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    assert faults() == [("format", "OLLAMA_HOST is not set, so no Ollama server is known")]
    assert "A model at the Ollama server" not in page_client(admin).get(page).content.decode()
    assert faults(format="gguf", profile="busy") == [("profile", "gguf is not hosted; leave it out")]
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    assert "does not answer" in client.post(path, asked).json()["error"]["message"]
    assert ExportJob.objects.count() == 1

    monkeypatch.setenv("OLLAMA_HOST", server.url)
    assert "A model at the Ollama server" in page_client(admin).get(page).content.decode()
    told = client.post(path, asked | {"profile": "long"}).json()
    assert told["options"] == {"quantisation": "Q8_0", "profile": "long", "host": server.url}
    made = ExportJob.objects.get(id=told["id"])
    assert run_job(made.job_id) is JobState.SUCCEEDED
    made.refresh_from_db()
    (name,) = server.models
    assert (made.state, made.artifact, made.report["ollama"]["name"]) == ("ready", export.artifact, name)
    assert f"The model <code>{name}</code> at {server.url}" in page_client(admin).get(page).content.decode()
    server.models.clear()
    again = client.post(path, asked | {"profile": "long"}).json()
    assert (again["id"], again["state"]) == (told["id"], "queued")
    made.refresh_from_db()
    assert run_job(made.job_id) is JobState.SUCCEEDED and list(server.models) == [name]
    assert "queued" in client.post(path, asked | {"quantisation": "Q2_K"}).json()["state"]
    waits = ExportJob.objects.get(state="queued")
    run_job(waits.job_id)  # for a GGUF that is not there yet
    assert set(ExportJob.objects.filter(state="queued").values_list("format", flat=True)) == {"gguf", "ollama"}
    assert list(server.models) == [name]


def test_what_cannot_be_deployed_is_refused_and_nothing_is_sent(
    export: ExportJob, server: OllamaStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, model = ("--host", server.url), f"{export.version.registered_model.name}:1"
    assert "no finished export as GGUF Q4_K_M" in refused(capsys, "deploy", "--model", model, *at)
    given = ("deploy", "--model", model, "--quantization", "Q8_0", *at)
    assert "is not a folder" in refused(capsys, *given, "--output", tmp_path / "nowhere")
    ollama = export.report["details"]["ollama"]
    AgentVersionFactory(agent=export.version.registered_model.agents.get(), system_prompt="Answer with a folder.")
    for change, says in (
        ({"lacks": "the chat template does more"}, "the chat template does more"),
        (ollama | {"takes_system": False}, "takes none"),
    ):
        ExportJob.objects.update(report={"details": export.report["details"] | {"ollama": change}})
        assert says in refused(capsys, *given)
    details = export.report["details"] | {"positions": 63}
    ExportJob.objects.update(report={"details": details})
    assert "asks with up to 64 tokens, and profile standard has a context of 63" in refused(capsys, *given)
    ExportJob.objects.update(report={"details": {}})
    assert "export it again" in refused(capsys, *given)
    assert refused(capsys, "switch", *at).splitlines() == ["--name: switch needs it", "--to: switch needs it"]
    assert server.models == {}
    assert "does not answer" in refused(capsys, "list", "--host", "http://127.0.0.1:1")


@pytest.mark.skipif(not os.environ.get("OLLAMA_HOST"), reason="needs OLLAMA_HOST, a live Ollama server")
def test_a_live_server_answers_with_the_model(export: ExportJob) -> None:
    import ollama

    model = f"{export.version.registered_model.name}:1"
    done = run("deploy", "--model", model, "--quantization", "Q8_0")
    try:
        assert done["name"] in {one["name"] for one in run("list")["models"]}
        answer = ollama.Client().chat(done["name"], messages=[{"role": "user", "content": "Where does this go?"}])
        assert answer.message.content is not None
    finally:
        run("delete", "--name", done["name"])
