"""*Train the best* where candidates cannot start, fail, or cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.models import Alias, AliasName, ModelVersion
from models_registry.models.version import VersionState
from tests.engine_task import labelled
from tests.tiny_encoder import make_encoder
from tools.factories import (
    DatasetSnapshotFactory,
    EvaluationFactory,
    ModelVersionFactory,
    RewardSpecFactory,
    TrainingRunFactory,
)
from training.datasets.snapshots import import_labelled
from training.errors import InvalidRun
from training.loops.best import LATE, Limits, plan_best, start_best
from training.loops.comparison import Line
from training.models import DatasetSnapshot, TrainingRun
from training.runs.candidates import PolicyKind, find_tagged_runs, kind_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def rows(store: Path, agent: Any, by: Any) -> tuple[Any, Any]:
    return (
        import_labelled(by=by, agent=agent, name="train", rows=labelled(96, 1)),
        import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(60, 2)),
    )


def _end(run: TrainingRun, state: str, version: ModelVersion | None = None, error: str = "") -> None:
    TrainingRun.objects.filter(id=run.id).update(
        state=state, produced_version=version, error=error, finished_at=timezone.now()
    )


def test_a_refusal_names_the_limit_that_leaves_all_candidates_out(
    agent: Any, by: Any, rows: tuple[Any, Any], page_client: Any, admin: Any
) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    with pytest.raises(InvalidRun) as raised:
        start_best(by=by, agent=agent, plan=plan, limits=Limits(minutes=1e-6, kinds=[PolicyKind.LANGUAGE_MODEL]))
    assert [fault.field for fault in raised.value.faults] == ["minutes"]
    assert "language model" in raised.value.faults[0].reason
    form = {"agent": agent.slug, "kinds": ["language_model"], "minutes": "0.001"}
    place = reverse("pages:best-new", args=[by.workspace.slug])
    shown = page_client(admin).post(place, form)
    assert shown.status_code == 400 and ", more than the 0.06 s that the" in shown.content.decode()


def test_rows_that_one_kind_alone_learns_from_say_so_where_it_is_not_to_be_tried(
    agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    DatasetSnapshot.objects.filter(id=plan.dataset.id).update(kind="preferences")
    plan.dataset.refresh_from_db()
    with pytest.raises(InvalidRun) as raised:
        start_best(by=by, agent=agent, plan=plan, limits=Limits(kinds=[PolicyKind.WORDS]))
    assert [fault.field for fault in raised.value.faults] == ["kinds"]


def test_candidates_are_not_compared_on_what_they_learn_from(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, other = plan_best(by=by, agent=agent, dataset=rows[0], heldout=rows[0])
    with pytest.raises(InvalidRun) as raised:
        start_best(by=by, agent=agent, plan=plan, other=other)
    assert [fault.field for fault in raised.value.faults] == ["heldout"]


def test_held_out_rows_that_were_the_default_replay_are_no_longer_learned_from(
    agent: Any, by: Any, rows: tuple[Any, Any]
) -> None:
    TrainingRunFactory(agent=agent, dataset=rows[0])
    ModelVersionFactory(registered_model=agent.registered_model)
    logged = DatasetSnapshotFactory(agent=agent, kind="logged", rows=40, reward_spec=RewardSpecFactory(agent=agent))
    replayed = plan_best(by=by, agent=agent, dataset=logged)[0].replay
    assert replayed is not None
    plan, _ = plan_best(by=by, agent=agent, dataset=logged, heldout=replayed)
    assert plan.heldout == replayed and plan.replay is None


def test_a_fault_that_all_candidates_have_is_told_once(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    plan.dataset.marked_at = timezone.now()
    with pytest.raises(InvalidRun) as raised:
        start_best(by=by, agent=agent, plan=plan)
    assert [fault.field for fault in raised.value.faults] == ["dataset"]


def test_an_encoder_that_is_named_by_its_folder_is_one_before_its_run_has_begun(
    agent: Any, by: Any, rows: tuple[Any, Any], tmp_path: Path, settings: Any
) -> None:
    settings.BASE_MODELS = [str(make_encoder(tmp_path / "models" / "small-encoder"))]
    plan, _ = plan_best(by=by, agent=agent)
    job = start_best(by=by, agent=agent, plan=plan)
    assert [kind_of(run) for run in find_tagged_runs(by.workspace, job.payload["tag"])] == list(PolicyKind)


def test_nothing_is_retired_where_nothing_was_compared(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    job = start_best(by=by, agent=agent, plan=replace(plan, heldout=None), limits=Limits(retire_others=True))
    versions = []
    for run in find_tagged_runs(by.workspace, job.payload["tag"]):
        versions.append(ModelVersionFactory(registered_model=agent.registered_model))
        _end(run, "succeeded", versions[-1])
    assert run_job(job.id) is JobState.SUCCEEDED, Job.objects.get(id=job.id).error
    states = set(ModelVersion.objects.filter(id__in=[one.id for one in versions]).values_list("state", flat=True))
    assert states == {VersionState.READY}


def test_the_sentence_names_what_failed(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    job = start_best(by=by, agent=agent, plan=plan, limits=Limits(kinds=[PolicyKind.WORDS, PolicyKind.LANGUAGE_MODEL]))
    words, writer = find_tagged_runs(by.workspace, job.payload["tag"])
    version = ModelVersionFactory(registered_model=agent.registered_model)
    _end(words, "succeeded", version)
    EvaluationFactory(run=words, version=version, scores={"trained": {"accuracy": {"mean": 0.8, "n": 60}}})
    _end(writer, "failed", error="The loss is not a number.")
    assert run_job(job.id) is JobState.SUCCEEDED, Job.objects.get(id=job.id).error
    says = Job.objects.get(id=job.id).result["says"]
    assert says.endswith("on 60 held-out rows. No version was made: language model (The loss is not a number).")


def test_the_result_says_that_time_was_over(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    job = start_best(by=by, agent=agent, plan=plan)
    job.payload["until"] = timezone.now().isoformat()
    job.save()
    assert run_job(job.id) is JobState.QUEUED
    assert run_job(job.id) is JobState.DEAD
    assert LATE in Job.objects.get(id=job.id).error


def test_what_no_candidate_reached_reads_well(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    plan, _ = plan_best(by=by, agent=agent)
    job = start_best(by=by, agent=agent, plan=plan)
    for run in find_tagged_runs(by.workspace, job.payload["tag"]):
        _end(run, "failed", error="The loss is not a number.")
    assert run_job(job.id) is JobState.DEAD
    reasons = "classifier of words (The loss is not a number); language model (The loss is not a number)"
    assert f"No candidate has made a version: {reasons}." in Job.objects.get(id=job.id).error


def test_a_classifier_serves_and_no_language_model_is_left(agent: Any, by: Any, rows: tuple[Any, Any]) -> None:
    model = agent.registered_model
    words = ModelVersionFactory(registered_model=model, artifact__kind="classifier", method="classifier")
    Alias.objects.create(workspace=by.workspace, registered_model=model, name=AliasName.CHAMPION, version=words)
    plan, other = plan_best(by=by, agent=agent)
    assert plan.base_version == words
    assert other is not None and other.method == "pretrain" and other.base_version is None


def test_a_price_below_a_hundredth_of_a_cent_is_not_zero(settings: Any) -> None:
    settings.MACHINE_HOUR_PRICE = 0.5
    line = Line(PolicyKind.WORDS, TrainingRun(), milliseconds=0.19)
    assert line.price == 0.0000264
