"""Exports as jobs: options, refusals before and after the work, and that nothing half done is ever seen."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from jobs.errors import Permanent
from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts import opening as artifacts
from models_registry.models import Artifact, ArtifactKind, ModelVersion
from tests.engine_task import labelled
from tools.export_kills import register_adapted
from tools.factories import ArtifactFactory, ModelVersionFactory
from training.engine.spec import export_formats
from training.exports import plans as export_plans
from training.exports import services as exports
from training.exports.plans import make_options
from training.exports.services import await_export, start_export
from training.models import ExportJob
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

HIDDEN, RANK = 32, 4


@pytest.fixture
def adapted(base_version: ModelVersion, by: Any, tmp_path: Path) -> ModelVersion:
    """Version 2: an adapter that nobody trained, measured on twelve held-out rows."""
    return register_adapted(by=by, base=base_version, folder=tmp_path / "adapter", rows=labelled(12, 3))


def make(by: Any, version: ModelVersion, **asked: Any) -> ExportJob:
    export = start_export(by=by, version=version, **asked)
    assert run_job(export.job_id) is JobState.SUCCEEDED, Job.objects.get(id=export.job_id).error
    export.refresh_from_db()
    return export


def working_files(export: ExportJob) -> list[Path]:
    files = sorted(path for path in exports.find_run_dir(export).rglob("*") if path.is_file())
    return [path for path in files if path.suffix != ".log" and path.name != "spec.json"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_adapter_is_exported_alone_and_merged_with_its_parity(adapted: ModelVersion, by: Any) -> None:
    lora, merged = make(by, adapted, format="lora"), make(by, adapted)
    assert [(one.state, one.artifact.kind) for one in (lora, merged)] == [("ready", "adapter"), ("ready", "model")]
    for export in (lora, merged):
        parity, digest = export.report["parity"], export.artifact.digest
        assert (parity["prompts"], parity["decisions"], parity["equal_decisions"]) == ("held_out", 12, 1.0)
        assert parity["kl_largest"] < 1e-9 and abs(export.report["reward"]["change"]) < 1e-6
        names = set(artifacts.verify_artifact(digest)["files"])
        assert {"README.md", "parity.json", "tokenizer.json", "chat_template.jinja"} <= names
        assert json.loads((artifacts.artifact_path(digest) / "parity.json").read_text()) == export.report
        assert working_files(export) == []  # weights, and rows that people wrote
    assert (artifacts.artifact_path(lora.artifact.digest) / "adapter_model.safetensors").read_bytes() == (
        artifacts.artifact_path(adapted.stored.digest) / "adapter_model.safetensors"
    ).read_bytes()
    assert start_export(by=by, version=adapted, format="lora") == lora


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_one_that_misses_its_bound_is_refused_with_its_report(
    adapted: ModelVersion, by: Any, monkeypatch: pytest.MonkeyPatch, api: Any
) -> None:
    real = exports.run_engine

    def differs(*given: Any, **named: Any) -> Any:
        finished = real(*given, **named)
        finished.result.export.parity.refusals.append("0.5 of 12 decisions are the version's")
        return finished

    monkeypatch.setattr(exports, "run_engine", differs)
    before = Artifact.objects.count()
    export = make(by, adapted)
    assert (export.state, export.artifact, export.error) == (
        "refused", None, "0.5 of 12 decisions are the version's",
    )  # fmt: skip
    assert export.report["parity"]["decisions"] == 12
    assert Artifact.objects.count() == before and working_files(export) == []
    client = api()
    assert client.get(f"exports/{export.id}/download").status_code == 409
    assert client.get(f"exports/{export.id}").json()["report"] == export.report
    assert start_export(by=by, version=adapted) != export  # it may be tried again


@pytest.mark.django_db(transaction=True)
def test_what_killed_attempts_left_goes_with_the_job(base_version: ModelVersion, by: Any) -> None:
    export = start_export(by=by, version=base_version, format="gguf")
    folder = exports.find_run_dir(export)
    for fence in (1, 2, 4):
        (folder / "attempts" / str(fence)).mkdir(parents=True)
        (folder / "attempts" / str(fence) / "weights").touch()
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / f"{fence}.jsonl").touch()
    Job.objects.filter(id=export.job_id).update(fence=3)
    exports.cancel_export(by=by, export=export)
    export.refresh_from_db()
    assert (export.state, export.error) == ("failed", "cancelled")
    # Whoever has a later fence is at work.
    assert working_files(export) == [folder / "attempts/4/weights", folder / "data/4.jsonl"]


@pytest.mark.django_db(transaction=True)
def test_whole_weights_go_out_as_they_are(base_version: ModelVersion, by: Any) -> None:
    export = make(by, base_version)
    assert (export.state, export.artifact, export.report) == ("ready", base_version.artifact, {"same_files": True})


@pytest.mark.django_db
def test_options_tell_exports_of_a_format_apart(base_version: ModelVersion, by: Any) -> None:
    pytest.importorskip("gguf", reason="the extra `export` is not installed")
    pytest.importorskip("xllamacpp", reason="the extra `export` is not installed")
    default = start_export(by=by, version=base_version, format="gguf")
    other = start_export(by=by, version=base_version, format="gguf", quantisation="Q8_0")
    assert (default.name, default.title) == ("gguf-Q4_K_M", "GGUF (llama.cpp), Q4_K_M")
    assert default.job.queue == "exports"
    assert default != other == start_export(by=by, version=base_version, format="gguf", quantisation="Q8_0")
    with pytest.raises(IntegrityError), transaction.atomic():
        ExportJob.objects.create(
            workspace=by.workspace, version=base_version, format="gguf", options_hash=other.options_hash
        )


@pytest.mark.django_db
def test_everything_that_is_missing_is_said_before_work_starts(
    base_version: ModelVersion, by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_formats, "find_spec", lambda name: None)
    monkeypatch.setattr(export_plans, "_model_type", lambda version: "mamba")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(InvalidInput) as refused:
        start_export(by=by, version=base_version, format="onnx")
    reasons = [fault.reason for fault in refused.value.faults]
    assert len(reasons) == 3
    assert "onnx, onnxscript, onnxruntime, which are not installed: run make exports" in reasons[0]
    assert "the model is mamba" in reasons[1] and "of disk are needed, but only 0 bytes are free" in reasons[2]
    with pytest.raises(InvalidInput, match="cannot be exported") as refused:
        start_export(by=by, version=base_version, format="lora", quantisation="Q9")
    assert [fault.field for fault in refused.value.faults] == ["quantisation"]
    assert not ExportJob.objects.exists() and not Job.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"format": "tarball"}, "format"),
        ({"format": "ollama"}, "format"),
        ({"format": "lora"}, "format"),
        ({"format": "merged", "quantisation": "Q8_0"}, "quantisation"),
        ({"format": "gguf", "quantisation": "Q5"}, "quantisation"),
        ({"format": "merged", "cache": True}, "cache"),
        ({"format": "merged", "speed": 9}, "speed"),
    ],
)
def test_the_api_refuses_what_cannot_be(base_version: ModelVersion, api: Any, body: Any, field: str) -> None:
    answer = api().post(f"versions/{base_version.id}/export", body)
    assert answer.status_code == 400, answer.json()
    assert field in [fault["field"] for fault in answer.json()["error"]["fields"]], answer.json()
    assert not ExportJob.objects.exists()


@pytest.mark.django_db
def test_a_queued_export_is_cancelled_and_may_be_asked_for_again(api: Any, agent: Any, by: Any) -> None:
    version = ModelVersionFactory(registered_model=agent.registered_model)
    client = api()
    made = client.post(f"versions/{version.id}/export", {}).json()
    assert client.post(f"exports/{made['id']}/cancel").json()["state"] == "failed"
    assert client.post(f"exports/{made['id']}/cancel").status_code == 409
    again = start_export(by=by, version=version)
    listed = client.get(f"versions/{version.id}/exports").json()["results"]
    assert [(one["id"], one["state"]) for one in listed] == [(str(again.id), "queued"), (made["id"], "failed")]
    assert AuditEntry.objects.filter(action="export.cancelled").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["failed", "refused"])
def test_a_loop_does_not_ask_again_for_what_ended_under_it(agent: Any, by: Any, state: str) -> None:
    version = ModelVersionFactory(registered_model=agent.registered_model)
    export = await_export(by=by, version=version, since=timezone.now())
    assert await_export(by=by, version=version, since=timezone.now()) == export
    began = export.created_at
    ExportJob.objects.filter(id=export.id).update(state=state, error="0.5 decide so", report={"parity": {}})
    with pytest.raises(Permanent, match="exporting filer:1"):
        await_export(by=by, version=version, since=began)
    assert ExportJob.objects.count() == 1
    assert await_export(by=by, version=version, since=timezone.now()) != export  # a loop that began later


@pytest.mark.django_db
def test_the_page_offers_each_format_and_says_what_is_missing(
    base_version: ModelVersion, admin: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_formats, "find_spec", lambda name: None if name.startswith("onnx") else object())
    client = page_client(admin)
    here = [base_version.workspace.slug, base_version.id]
    at = [reverse(f"pages:{name}", args=here) for name in ("version-export", "version")]
    page = client.get(at[1]).content.decode()
    assert '<option value="gguf:Q4_K_M">' in page and '<option value="onnx:cache" disabled>' in page
    assert page.count("(recommended for this machine") == 1 and 'value="lora"' not in page
    assert "Not available here: onnx needs onnx, onnxscript, onnxruntime, which are not installed" in page
    assert "the version&#x27;s" not in page  # nothing is compared yet
    client.post(at[0], {"as": "onnx"})
    assert not ExportJob.objects.exists()
    assert "onnx needs onnx, onnxscript, onnxruntime" in client.get(at[1]).content.decode()
    client.post(at[0], {"as": "gguf:Q6_K"})
    export = ExportJob.objects.get()
    page = client.get(at[1]).content.decode()
    assert export.options == {"quantisation": "Q6_K"} and '<option value="gguf:Q6_K"' not in page
    client.post(reverse("pages:export-cancel", args=[base_version.workspace.slug, export.id]))
    export.refresh_from_db()
    assert export.state == "failed" and AuditEntry.objects.filter(action="export.cancelled").count() == 1


@pytest.mark.django_db
def test_a_classifier_is_offered_the_formats_that_hold_one(workspace: Any, admin: Any, page_client: Any) -> None:
    artifact = ArtifactFactory(workspace=workspace, kind=ArtifactKind.CLASSIFIER)
    version = ModelVersionFactory(workspace=workspace, artifact=artifact, registered_model__workspace=workspace)
    page = page_client(admin).get(reverse("pages:version", args=[workspace.slug, version.id])).content.decode()
    assert re.findall(r'<option value="(\w+)', page) == ["onnx", "sklearn"]
    for format, options, says in (
        ("merged", {}, "merged holds language models, and it is a classifier: export onnx or sklearn"),
        ("gguf", {}, "gguf holds language models, and it is a classifier"),
        ("onnx", {"cache": True}, "a classifier reads whole texts"),
    ):
        with pytest.raises(InvalidInput) as refused:
            make_options(version, format, **options)
        assert says in refused.value.faults[0].reason
    assert not ExportJob.objects.exists()
    with pytest.raises(InvalidInput) as refused:
        make_options(ModelVersionFactory(workspace=workspace), "sklearn")
    assert "sklearn holds classifiers, and it is a language model" in refused.value.faults[0].reason
