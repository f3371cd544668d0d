"""Exports as jobs: options, refusals before and after the work, and that nothing half done is ever seen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from safetensors.numpy import save_file

from jobs.errors import Permanent
from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry import artifacts
from models_registry.models import Artifact, ModelVersion
from models_registry.services import NewVersion, register_version, store_artifact
from tests.engine_task import labelled
from tools.factories import ArtifactFactory, DatasetSnapshotFactory, ModelVersionFactory, TrainingRunFactory, put_rows
from training import export_plans, exports
from training.engine import export_formats
from training.exports import await_export, start_export
from training.models import ExportJob
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

HIDDEN, RANK = 32, 4


@pytest.fixture
def adapted(base_version: ModelVersion, by: Any, tmp_path: Path) -> ModelVersion:
    """Version 2: an adapter that nobody trained, measured on twelve held-out rows."""
    folder, draw = tmp_path / "adapter", np.random.default_rng(0)
    folder.mkdir()
    at = "base_model.model.model.layers.0.self_attn.q_proj"
    shapes = {f"{at}.lora_A.weight": (RANK, HIDDEN), f"{at}.lora_B.weight": (HIDDEN, RANK)}
    save_file(
        {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        folder / "adapter_model.safetensors",
    )
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"],
        "base_model_name_or_path": "", "inference_mode": True,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="adapter", meta={"base_model": "tiny"})
    new = NewVersion(artifact=artifact, method="posterior", base=base_version, parent=base_version)
    version = register_version(by=by, model=base_version.registered_model, new=new)
    agent = version.registered_model.agents.get()
    rows = ArtifactFactory(workspace=by.workspace, kind="dataset", digest=put_rows(labelled(12, 3)).digest)
    heldout = DatasetSnapshotFactory(agent=agent, artifact=rows, rows=12)
    TrainingRunFactory(
        agent=agent, heldout=heldout, spec={"max_prompt_tokens": 16}, state="succeeded", produced_version=version,
        finished_at=version.created_at,
    )  # fmt: skip
    return version


def make(by: Any, version: ModelVersion, **asked: Any) -> ExportJob:
    export = start_export(by=by, version=version, **asked)
    assert run_job(export.job_id) is JobState.SUCCEEDED, Job.objects.get(id=export.job_id).error
    export.refresh_from_db()
    return export


def working_files(export: ExportJob, settings: Any) -> list[Path]:
    folder = settings.RUNS / f"export-{export.id}"
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".log" and path.name != "spec.json"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_adapter_is_exported_alone_and_merged_with_its_parity(adapted: ModelVersion, by: Any, settings: Any) -> None:
    lora, merged = make(by, adapted, format="lora"), make(by, adapted)
    assert [(one.state, one.artifact.kind) for one in (lora, merged)] == [("ready", "adapter"), ("ready", "model")]
    for export in (lora, merged):
        parity, digest = export.report["parity"], export.artifact.digest
        assert (parity["prompts"], parity["decisions"], parity["equal_decisions"]) == ("held_out", 12, 1.0)
        assert parity["kl_largest"] < 1e-9 and abs(export.report["reward"]["change"]) < 1e-6
        names = set(artifacts.verify_artifact(digest)["files"])
        assert {"README.md", "parity.json", "tokenizer.json", "chat_template.jinja"} <= names
        assert json.loads((artifacts.artifact_path(digest) / "parity.json").read_text()) == export.report
        assert working_files(export, settings) == []  # weights, and rows that people wrote
    assert (artifacts.artifact_path(lora.artifact.digest) / "adapter_model.safetensors").read_bytes() == (
        artifacts.artifact_path(adapted.stored.digest) / "adapter_model.safetensors"
    ).read_bytes()
    assert start_export(by=by, version=adapted, format="lora") == lora


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_one_that_misses_its_bound_is_refused_with_its_report(
    adapted: ModelVersion, by: Any, settings: Any, monkeypatch: pytest.MonkeyPatch, api: Any
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
    assert Artifact.objects.count() == before and working_files(export, settings) == []
    client = api()
    assert client.get(f"exports/{export.id}/download").status_code == 409
    assert client.get(f"exports/{export.id}").json()["report"] == export.report
    assert start_export(by=by, version=adapted) != export  # it may be tried again


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", ["store_export", "publish_export"])
def test_an_attempt_that_dies_leaves_nothing_visible(
    adapted: ModelVersion, by: Any, settings: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def dies(*_: Any) -> None:
        raise RuntimeError("killed here")

    export = start_export(by=by, version=adapted, format="lora")
    with monkeypatch.context() as patch:
        patch.setattr(exports, place, dies)
        assert run_job(export.job_id) is not JobState.SUCCEEDED
    export.refresh_from_db()
    assert (export.state, export.artifact, export.report, working_files(export, settings)) == ("queued", None, {}, [])
    Job.objects.filter(id=export.job_id).update(run_after=export.created_at)
    assert run_job(export.job_id) is JobState.SUCCEEDED
    export.refresh_from_db()
    assert export.state == "ready" and export.report["parity"]["refusals"] == []


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
    assert "the model is mamba" in reasons[1] and "of disk are needed, and 0 bytes are free" in reasons[2]
    with pytest.raises(InvalidInput, match="cannot be exported so") as refused:
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
