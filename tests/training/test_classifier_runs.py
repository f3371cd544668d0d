"""Classifiers as versions: trained by runs, served by the model server, compared, and trained again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem
from models_registry.backends.model_server import score
from models_registry.backends.prompts import Prompt
from models_registry.models import BASE_METHOD, ArtifactKind, ModelVersion
from models_registry.versions.services import get_champion
from tests.engine_task import labelled
from tests.tiny_encoder import make_encoder
from tools.factories import OPTIONS
from training.datasets.snapshots import import_labelled
from training.errors import InvalidRun
from training.exports.services import start_export
from training.models import TrainingRun
from training.runs.defaults.values import find_defaults
from training.runs.services import RunPlan, start_run

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
SETTINGS: dict[str, Any] = {"threads": 1}


@pytest.fixture
def encoder(tmp_path: Path, settings: Any) -> Path:
    folder = make_encoder(tmp_path / "models" / "small-encoder")
    settings.BASE_MODELS = [str(folder.parent)]
    return folder


@pytest.fixture
def rows(agent: Any, by: Any) -> tuple[Any, Any]:
    return (
        import_labelled(by=by, agent=agent, name="train", rows=labelled(96, 1)),
        import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(60, 2)),
    )


def finish(run: TrainingRun) -> ModelVersion:
    assert run_job(run.job_id) is JobState.SUCCEEDED, Job.objects.get(id=run.job_id).error
    version = TrainingRun.objects.get(id=run.id).produced_version
    return ModelVersion.objects.select_related("artifact", "base__artifact").get(id=version.id)


def plan(rows: tuple[Any, Any], settings: dict[str, Any] | None = None, **base: Any) -> RunPlan:
    return RunPlan("classifier", rows[0], heldout=rows[1], settings=SETTINGS | (settings or {}), **base)


def test_words_serve_and_their_successor_is_compared_with_them(
    served: None, agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    first = finish(start_run(by=by, agent=agent, plan=plan(rows, base_model="words")))
    assert (first.kind, first.base, first.base_model) == (ArtifactKind.CLASSIFIER, None, "words")
    assert get_champion(agent.registered_model) == first
    (answer,) = score([ScoreItem(first.stored.digest, Prompt("flight hotel visa"), tuple(OPTIONS), 16)])
    assert answer.probabilities[OPTIONS.index("travel")] > 0.5

    # What a run would begin with now: the champion, which is a classifier, again.
    defaults = find_defaults(agent.workspace, [agent])[agent.id]
    chosen = defaults.plan(rows[0])
    assert chosen is not None and (chosen.method, chosen.base_version) == ("classifier", first)
    second = finish(start_run(by=by, agent=agent, plan=chosen))
    assert second.parent == first and second.base is None

    third = finish(start_run(by=by, agent=agent, plan=plan(rows, base_version=first)))
    found = third.evaluations.get()
    assert found.against == first and found.differences["accuracy"]["mean"] == pytest.approx(0, abs=1e-9)


def test_an_encoder_is_a_version_and_no_policy(
    encoder: Path, served: None, agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    head = finish(start_run(by=by, agent=agent, plan=plan(rows, base_model=str(encoder))))
    base = head.base
    assert base is not None and (base.kind, base.method) == (ArtifactKind.ENCODER, BASE_METHOD)
    assert not base.is_policy and head.is_policy and get_champion(agent.registered_model) == head
    assert head.stored.meta["base"] == base.stored.digest
    assert head.evaluations.get().against is None
    (answer,) = score([ScoreItem(head.stored.digest, Prompt("flight hotel visa"), tuple(OPTIONS), 16)])
    assert sum(answer.probabilities) == pytest.approx(1)

    # The same encoder under another classifier, which is compared with the champion.
    words = finish(start_run(by=by, agent=agent, plan=plan(rows, base_model="words")))
    settings = {"classifier": {"encoder": str(base.id), "words_beside": True}}
    over = finish(start_run(by=by, agent=agent, plan=plan(rows, settings, base_version=words)))
    assert over.base == base and over.parent == words and over.evaluations.get().against == words
    assert ModelVersion.objects.filter(method=BASE_METHOD).count() == 1


def test_what_suits_no_classifier_is_refused_before_anything_is_queued(
    encoder: Path, tiny_run: Path, store: Path, agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    classifier = finish(start_run(by=by, agent=agent, plan=plan(rows, base_model="words")))
    counted = TrainingRun.objects.count()
    refused = {
        "base_model": RunPlan("sft", rows[0], base_model="words"),
        "base_version": RunPlan("sft", rows[0], base_version=classifier),
        "settings.classifier.encoder": plan(rows, {"classifier": {"encoder": "nothing"}}, base_version=classifier),
    }
    for field, wrong in refused.items():
        with pytest.raises(InvalidRun) as raised:
            start_run(by=by, agent=agent, plan=wrong)
        assert field in [fault.field for fault in raised.value.faults]
    with pytest.raises(InvalidRun) as raised:
        start_run(by=by, agent=agent, plan=RunPlan("sft", rows[0], base_model=str(encoder)))
    assert "is a sentence encoder" in raised.value.faults[0].reason
    assert TrainingRun.objects.count() == counted


@pytest.mark.parametrize("format", ["onnx", "sklearn"])
def test_a_version_is_exported_with_lines_that_serve_it(
    served: None, agent: Any, by: Any, admin: Any, page_client: Any, rows: tuple[Any, Any], format: str
) -> None:
    version = finish(start_run(by=by, agent=agent, plan=plan(rows, base_model="words")))
    export = start_export(by=by, version=version, format=format)
    assert run_job(export.job_id) is JobState.SUCCEEDED, Job.objects.get(id=export.job_id).error
    export.refresh_from_db()
    parity = export.report["parity"]
    assert (export.state, parity["prompts"], parity["equal_decisions"]) == ("ready", "held_out", 1.0)
    folder = artifact_path(export.artifact.digest)
    card = (folder / "README.md").read_text()
    assert "def decide(text):" in card and "## Model" in card and "transformers" not in card
    assert {"onnx": "model.onnx", "sklearn": "head.skops"}[format] in {path.name for path in folder.iterdir()}
    place = reverse("pages:version", args=[agent.workspace.slug, version.id])
    page = page_client(admin).get(place).content.decode()
    assert "Same decisions" in page and "Same next token" not in page
