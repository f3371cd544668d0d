"""A base that was named by its folder, with an adapter over it: it becomes a version, and every later step finds it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.context import JobContext
from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem
from models_registry.backends.model_server import score
from models_registry.backends.prompts import Prompt
from models_registry.errors import NoChampion
from models_registry.models import BASE_METHOD, ModelVersion
from models_registry.versions.services import get_champion
from tests.engine_task import labelled
from tools.factories import OPTIONS
from training.datasets.snapshots import import_labelled
from training.errors import InvalidRun
from training.exports.services import start_export
from training.models import TrainingRun
from training.runs.services import RunPlan, start_run
from training.supervision import named_bases

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
LORA: dict[str, Any] = {
    "lora": {"r": 4, "alpha": 8},
    "optimiser": {"learning_rate": 0.02, "epochs": 2, "batch_size": 16},
    "max_prompt_tokens": 16,
    "threads": 1,
    "evaluate": {"free_rows": 0},
}


@pytest.fixture
def folder(tmp_path: Path, tiny_run: Path, settings: Any) -> Path:
    """A model as its owner keeps it, with pickled weights beside the others, and the manifest of a store."""
    place = tmp_path / "models" / "qwen2-shape"
    shutil.copytree(tiny_run / "attempts" / "1" / "model", place)
    (place / "pytorch_model.bin").write_bytes(b"pickled")
    (place / "MANIFEST.json").write_text("{}")
    settings.BASE_MODELS = [str(place.parent)]
    return place


@pytest.fixture
def rows(agent: Any, by: Any) -> tuple[Any, Any]:
    return (
        import_labelled(by=by, agent=agent, name="train", rows=labelled(48, 1)),
        import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(24, 2)),
    )


def finish(run: TrainingRun) -> ModelVersion:
    assert run_job(run.job_id) is JobState.SUCCEEDED, Job.objects.get(id=run.job_id).error
    version = TrainingRun.objects.get(id=run.id).produced_version
    return ModelVersion.objects.select_related("artifact", "base__artifact").get(id=version.id)


def start(by: Any, agent: Any, rows: tuple[Any, Any], **base: Any) -> TrainingRun:
    return start_run(by=by, agent=agent, plan=RunPlan("sft", rows[0], heldout=rows[1], settings=LORA, **base))


def test_the_adapter_serves_is_trained_further_and_exported(
    folder: Path, served: None, agent: Any, by: Any, rows: Any
) -> None:
    run = start(by, agent, rows, base_model=str(folder))
    adapter = finish(run)
    base = adapter.base
    assert base is not None and base.method == BASE_METHOD and base.parent is None
    assert (base.base_model, adapter.base_model) == (folder.name, folder.name)
    assert not (artifact_path(base.stored.digest) / "pytorch_model.bin").exists()
    assert adapter.stored.meta["base"] == base.stored.digest and adapter.parent == base
    run.refresh_from_db()
    assert (run.base_version, run.base_model) == (base, str(folder))

    # The adapter is the champion, not its base; the model server answers by it.
    assert get_champion(agent.registered_model) == adapter
    questions = [
        ScoreItem(version.stored.digest, Prompt("a flight and a hotel"), tuple(OPTIONS), 16)
        for version in (base, adapter)
    ]
    by_base, by_adapter = (answer.probabilities for answer in score(questions))
    assert by_adapter != pytest.approx(by_base, abs=1e-4)
    # It was measured against its base, so its gate has a verdict.
    assert adapter.evaluations.get().against == base

    # A second round goes on from the adapter, over the same base.
    second = finish(start(by, agent, rows, base_version=adapter))
    assert second.base == base
    # The same folder again is the same version.
    again = finish(start(by, agent, rows, base_model=str(folder)))
    assert again.base == base and ModelVersion.objects.filter(method=BASE_METHOD).count() == 1

    export = start_export(by=by, version=adapter)
    assert run_job(export.job_id) is JobState.SUCCEEDED, Job.objects.get(id=export.job_id).error


def test_a_base_of_a_hub_is_kept_with_its_revision(
    folder: Path, store: Path, agent: Any, by: Any, rows: Any, settings: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The hub's cache as its own library leaves it; no hub is asked."""
    revision = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "hub" / "models--example--small"
    shutil.copytree(folder, cached / "snapshots" / revision)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(revision)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings.BASE_MODELS = ["example/small", "example/missing"]

    base = finish(start(by, agent, rows, base_model="example/small")).base
    assert base is not None
    assert base.stored.meta == {"base_model": "example/small", "revision": revision}
    assert base.description == f"The base example/small at {revision}"

    lost = start(by, agent, rows, base_model="example/missing")
    assert run_job(lost.job_id) is JobState.DEAD
    assert "example/missing cannot be fetched" in Job.objects.get(id=lost.job_id).error


def test_what_is_no_base_is_refused_before_anything_is_queued(
    folder: Path, store: Path, agent: Any, by: Any, rows: Any
) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(InvalidRun) as refused:
        start(by, agent, rows, base_model=str(folder))
    assert [fault.field for fault in refused.value.faults] == ["base_model"]
    assert "safetensors" in refused.value.faults[0].reason
    assert not TrainingRun.objects.exists() and not Job.objects.exists()


def test_what_the_model_server_cannot_answer_by_becomes_nobody_s_champion(
    folder: Path, served: None, agent: Any, by: Any, rows: Any, monkeypatch: Any
) -> None:
    from training.supervision import job

    # Its base is not stored, as before bases were versions: the server has nothing to lay the adapter over.
    monkeypatch.setattr(job, "keep_named_base", lambda context, run: None)
    run = start(by, agent, rows, base_model=str(folder))
    version = finish(run)
    run.refresh_from_db()
    assert f"{version} cannot serve" in run.message and "names no base" in run.message
    with pytest.raises(NoChampion):
        get_champion(agent.registered_model)


def test_a_cancelled_fetch_ends_the_job(
    folder: Path, store: Path, agent: Any, by: Any, rows: Any, settings: Any, monkeypatch: Any
) -> None:
    settings.BASE_MODELS = ["example/slow"]
    monkeypatch.setattr(named_bases, "FETCH", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(named_bases, "CANCEL_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(JobContext, "cancel_requested", lambda self: True)
    run = start(by, agent, rows, base_model="example/slow")
    assert run_job(run.job_id) is JobState.CANCELLED
    run.refresh_from_db()
    assert run.base_version is None and not ModelVersion.objects.exists()
