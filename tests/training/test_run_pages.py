"""Pages of runs and of one version."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from tests.factories import (
    DatasetSnapshotFactory,
    EvaluationFactory,
    ExportJobFactory,
    JobFactory,
    ModelVersionFactory,
    RunEventFactory,
    RunMetricFactory,
    TrainingRunFactory,
)
from training.models import ExportJob, TrainingRun
from training.runs import RunPlan, start_run

DIFFERENCE = {"mean": 0.123, "low": 0.081, "high": 0.165, "n": 100, "clusters": 20}


@pytest.fixture
def run(agent: Any, by: Any) -> TrainingRun:
    """Queued, with its job."""
    dataset = DatasetSnapshotFactory(agent=agent)
    return start_run(by=by, agent=agent, plan=RunPlan(method="pretrain", dataset=dataset, base_model="tiny"))


def finish(run: TrainingRun) -> Any:
    version = ModelVersionFactory(registered_model=run.agent.registered_model)
    TrainingRun.objects.filter(id=run.id).update(
        state="succeeded", produced_version=version, finished_at=timezone.now(), progress=1.0
    )
    run.refresh_from_db()
    differences = {"accuracy": DIFFERENCE, "reward": DIFFERENCE}
    EvaluationFactory(run=run, version=version, differences=differences)
    return version


def at(name: str, row: Any, slug: str | None = None) -> str:
    return reverse(f"pages:{name}", args=[slug or row.workspace.slug, row.pk])


class TestRuns:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:runs", args=[workspace.slug])

    def test_no_run_says_what_to_do(self, viewer: Any, path: str, page_client: Any) -> None:
        assert "No run yet" in page_client(viewer).get(path).content.decode()

    def test_it_says_what_each_run_gained(self, run: TrainingRun, viewer: Any, path: str, page_client: Any) -> None:
        finish(run)
        text = page_client(viewer).get(path).content.decode()
        assert "succeeded" in text and "+12.3 pts" in text and "[+8.1, +16.5]" in text

    def test_pages_follow_the_cursor_by_few_queries(
        self, agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        dataset = DatasetSnapshotFactory(agent=agent)
        made = [run.id for run in TrainingRunFactory.create_batch(30, agent=agent, dataset=dataset)]
        client = page_client(viewer)
        with django_assert_max_num_queries(6):
            first = client.get(path)
        second = client.get(f"{path}?{first.context['older']}")
        seen = [run.id for page in (first, second) for run in page.context["runs"]]
        assert seen == sorted(made, reverse=True) and second.context["older"] == ""
        assert client.get(f"{path}?before=x").status_code == 400


class TestRun:
    def test_the_curves_hold_the_newest_attempt_of_each_step(
        self, run: TrainingRun, viewer: Any, page_client: Any
    ) -> None:
        for attempt, step, value in ((1, 1, 3.0), (1, 2, 2.5), (2, 2, 2.0), (2, 3, 1.5)):
            RunMetricFactory(run=run, attempt=attempt, step=step, name="loss", value=value)
        RunMetricFactory(run=run, attempt=1, step=1, name="rate", value=0.1)
        found = page_client(viewer).get(at("run-curves", run)).json()
        assert found["terminal"] is False
        assert found["curves"] == [
            {"name": "loss", "x": [1, 2, 3], "y": [3.0, 2.0, 1.5]},
            {"name": "rate", "x": [1], "y": [0.1]},
        ]

    def test_the_status_is_polled_until_the_run_is_over(self, run: TrainingRun, viewer: Any, page_client: Any) -> None:
        RunEventFactory(run=run, kind="checkpoint", details={"step": 120})
        client = page_client(viewer)
        busy = client.get(at("run-status", run))
        assert (
            busy.status_code == 200 and "hx-trigger" in busy.content.decode() and "checkpoint" in busy.content.decode()
        )
        finish(run)
        over = client.get(at("run-status", run))
        assert over.status_code == 286 and "hx-trigger" not in over.content.decode()
        assert "+12.3 pts" in over.content.decode()
        assert client.get(at("run-curves", run)).json()["terminal"] is True

    @pytest.mark.parametrize("name", ["run", "run-status", "run-curves", "run-cancel"])
    def test_an_outsider_finds_nothing(
        self, name: str, run: TrainingRun, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        assert client.get(at(name, run)).status_code == 404
        assert client.get(at(name, run, other_workspace.slug)).status_code == 404

    def test_an_admin_cancels_it_once(self, run: TrainingRun, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        assert client.get(at("run-cancel", run)).status_code == 200
        run.refresh_from_db()
        assert run.state == "queued"
        assert client.post(at("run-cancel", run))["Location"] == at("run", run)
        run.refresh_from_db()
        assert run.state == "cancelled"
        again = client.post(at("run-cancel", run))
        assert again.status_code == 409 and "already" in again.content.decode()

    @pytest.mark.parametrize("persona", ["viewer", "labeller"])
    def test_lower_roles_see_no_button_and_are_refused(
        self, persona: str, run: TrainingRun, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert "Cancel…" not in client.get(at("run", run)).content.decode()
        assert client.post(at("run-cancel", run)).status_code == 403
        run.refresh_from_db()
        assert run.state == "queued" and not Job.objects.get(id=run.job_id).cancel_requested


class TestVersion:
    @pytest.fixture
    def version(self, run: TrainingRun) -> Any:
        return finish(run)

    def test_it_shows_run_evaluation_and_digest(
        self, version: Any, run: TrainingRun, viewer: Any, page_client: Any
    ) -> None:
        text = page_client(viewer).get(at("version", version)).content.decode()
        assert str(run) in text and "+12.3 pts" in text and version.artifact.digest in text

    def test_an_admin_exports_it_once(self, version: Any, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        for _ in range(2):
            assert client.post(at("version-export", version))["Location"] == at("version", version)
        assert ExportJob.objects.filter(version=version).count() == 1
        page = client.get(at("version", version)).content.decode()
        assert 'hx-trigger="every 2s"' in page and "Export merged weights" not in page

    def test_a_ready_export_shows_its_digest_and_is_polled_no_more(
        self, version: Any, viewer: Any, page_client: Any
    ) -> None:
        ExportJobFactory(version=version, job=JobFactory(), state="ready", artifact=version.artifact)
        answer = page_client(viewer).get(at("version-exports", version))
        assert answer.status_code == 286 and version.artifact.digest in answer.content.decode()

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_export_nothing(
        self, persona: str, status: int, version: Any, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert client.post(at("version-export", version)).status_code == status
        assert not ExportJob.objects.exists()
