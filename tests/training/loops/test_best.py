"""*Train the best*: candidates of every kind learn from the same rows, and one of them is named, by command, API and
pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, JobState
from jobs.runner import run_job
from jobs.services import request_cancel
from models_registry.models import ModelVersion
from tests.engine_task import TINY, labelled
from tests.tiny_encoder import make_encoder
from tools.factories import EvaluationFactory, ModelVersionFactory, TrainingRunFactory
from training.datasets.snapshots import import_labelled
from training.errors import InvalidRun
from training.loops.best import Limits, plan_best, start_best
from training.loops.comparison import compare_candidates
from training.models import TrainingRun
from training.runs.candidates import NO_ENCODER, PolicyKind, find_tagged_runs, kind_of
from training.runs.services import RunPlan

emptied = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rows(store: Path, agent: Any, by: Any) -> tuple[Any, Any]:
    return (
        import_labelled(by=by, agent=agent, name="train", rows=labelled(96, 1)),
        import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(60, 2)),
    )


def finish(job: Job) -> Job:
    """Trains the candidates and looks once more."""
    for run in find_tagged_runs(job.workspace, job.payload["tag"]):
        assert run_job(run.job_id) is JobState.SUCCEEDED, Job.objects.get(id=run.job_id).error
    assert run_job(job.id) is JobState.SUCCEEDED, Job.objects.get(id=job.id).error
    return Job.objects.get(id=job.id)


@emptied
@pytest.mark.slow
def test_every_kind_learns_the_same_rows_and_the_best_is_named(
    served: None, tmp_path: Path, settings: Any, agent: Any, by: Any, rows: tuple[Any, Any], api: Any, page_client: Any,
    admin: Any,
) -> None:  # fmt: skip
    folder = make_encoder(tmp_path / "models" / "small-encoder")
    settings.BASE_MODELS, settings.MACHINE_HOUR_PRICE = [str(folder.parent)], 2.0
    plan, other = plan_best(by=by, agent=agent)
    assert other is None and (plan.method, plan.dataset, plan.heldout) == ("pretrain", *rows)
    small = RunPlan(plan.method, plan.dataset, base_model=plan.base_model, heldout=plan.heldout, settings=TINY)
    job = start_best(by=by, agent=agent, plan=small)
    runs = find_tagged_runs(by.workspace, job.payload["tag"])
    assert [run.method for run in runs] == ["classifier", "classifier", "pretrain"]
    assert {run.dataset for run in runs} == {rows[0]} and {run.heldout for run in runs} == {rows[1]}

    client, page = page_client(admin), reverse("pages:best", args=[by.workspace.slug, job.id])
    assert "Language model" in client.get(page).content.decode()
    assert run_job(job.id) is JobState.QUEUED  # looks again
    result = finish(job).result
    assert [kind_of(run) for run in find_tagged_runs(by.workspace, job.payload["tag"])] == list(PolicyKind)
    best, *others = result["candidates"]
    assert best["best"] and best["version"] == result["best"] and best["difference"] is None
    assert best["score"]["mean"] >= max(one["score"]["mean"] for one in others) - 0.005
    for one in others:
        assert one["difference"]["n"] == 60 and one["milliseconds"] > 0 and one["price_per_1000"] is not None
    shown = client.get(page).content.decode()
    assert result["says"] in shown.replace("&#x27;", "'") and result["best"] in shown
    told = api("export:read").get(f"runs/best/{job.id}").json()
    assert told["comparison"]["best"] == result["best"] and len(told["comparison"]["candidates"]) == 3


@emptied
@pytest.mark.slow
def test_a_champion_that_is_a_classifier_is_compared_with_a_language_model(
    served: None, base_version: ModelVersion, agent: Any, by: Any, rows: tuple[Any, Any], capsys: Any
) -> None:
    call_command("runs", "best", agent=agent.slug, kinds=["words"], json=True)
    told = json.loads(capsys.readouterr().out)
    finish(Job.objects.get(id=told["job"]))
    words = TrainingRun.objects.get(method="classifier").produced_version
    assert words is not None and words.parent == base_version  # and is compared with the champion
    words.aliases.all().delete()
    base_version.aliases.update(version=words)
    plan, other = plan_best(by=by, agent=agent)
    assert plan.base_version == words and other is not None and other.method == "pretrain"


@pytest.mark.django_db
def test_nothing_starts_outside_the_limits_and_kinds_that_are_missing_say_why(
    agent: Any, by: Any, rows: tuple[Any, Any], api: Any, page_client: Any, admin: Any
) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    for limits, field in (
        (Limits(minutes=0), "minutes"),
        (Limits(minutes=float("nan")), "minutes"),
        (Limits(budget=5.0), "budget"),
        (Limits(kinds=()), "kinds"),
        (Limits(kinds=[PolicyKind.ENCODER]), "kinds"),
    ):
        with pytest.raises(InvalidRun) as raised:
            start_best(by=by, agent=agent, plan=plan, limits=limits)
        assert [fault.field for fault in raised.value.faults] == [field]
    answer = api("admin").post("runs/best", {"agent": agent.slug, "minutes": 0})
    assert answer.status_code == 400 and "minutes" in answer.content.decode()
    place = reverse("pages:best-new", args=[by.workspace.slug])
    form = {"agent": agent.slug, "kinds": ["encoder"], "minutes": "5"}
    refused = page_client(admin).post(place, form)
    assert refused.status_code == 400 and "No sentence encoder is at hand" in refused.content.decode()
    assert not TrainingRun.objects.exists() and not Job.objects.filter(kind="training.train_best").exists()

    job = start_best(by=by, agent=agent, plan=plan, limits=Limits(minutes=0.01))
    assert job.payload["left_out"]["encoder"] == NO_ENCODER
    assert "more than the" in job.payload["left_out"]["language_model"]
    assert [run.method for run in find_tagged_runs(by.workspace, job.payload["tag"])] == ["classifier"]


@emptied
def test_what_takes_too_long_is_stopped_and_a_cancelled_comparison_takes_its_runs_along(
    agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    late, cancelled = (start_best(by=by, agent=agent, plan=plan) for _ in range(2))
    late.payload["until"] = timezone.now().isoformat()
    late.save()
    assert run_job(late.id) is JobState.QUEUED
    assert {run.state for run in find_tagged_runs(by.workspace, late.payload["tag"])} == {"cancelled"}
    assert run_job(late.id) is JobState.DEAD and "No candidate" in Job.objects.get(id=late.id).error
    request_cancel(job_id=cancelled.id)
    assert {run.state for run in find_tagged_runs(by.workspace, cancelled.payload["tag"])} == {"cancelled"}


def _compared(agent: Any, runs_dir: Path, means: Sequence[float], *, rows: int = 1000) -> Any:
    """A comparison of words, an encoder and a language model with these accuracies on `rows` rows."""
    encoder = ModelVersionFactory(registered_model=agent.registered_model, artifact__kind="encoder")
    made = []
    for place, mean in enumerate(means):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        run = TrainingRunFactory(
            agent=agent, produced_version=version, state="succeeded", finished_at=timezone.now(),
            method="pretrain" if place == 2 else "classifier", base_version=encoder if place == 1 else None,
            metrics={"decision_milliseconds": 10.0**place, "seconds": 5.0},
        )  # fmt: skip
        EvaluationFactory(run=run, version=version, scores={"trained": {"accuracy": {"mean": mean, "n": rows}}})
        made.append(run)
    return compare_candidates(made)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("means", "best"),
    [
        ((0.80, 0.90, 0.85), PolicyKind.ENCODER),
        ((0.80, 0.90, 0.904), PolicyKind.ENCODER),  # a language model costs more than that is worth
        ((0.80, 0.90, 0.91), PolicyKind.LANGUAGE_MODEL),
        ((0.90, 0.90, 0.90), PolicyKind.WORDS),
    ],
)
def test_the_most_accurate_wins_and_of_two_as_good_the_cheaper(
    agent: Any, settings: Any, tmp_path: Path, means: Sequence[float], best: PolicyKind
) -> None:
    settings.RUNS = tmp_path
    comparison = _compared(agent, tmp_path, means)
    assert comparison.winner is not None and comparison.winner.kind is best
    assert comparison.say().startswith(f"{comparison.winner.version} ({best.says}) is the best for its price")
