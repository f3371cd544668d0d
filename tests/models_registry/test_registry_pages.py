"""Pages of models and experiments."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from models_registry.experiments import ExperimentPlan, start_experiment
from models_registry.models import Alias, Experiment
from models_registry.services import NewVersion, register_version
from tests.factories import (
    ArtifactFactory,
    ExposureFactory,
    GateVerdictFactory,
    ModelVersionFactory,
    ObservationFactory,
)
from workspaces.models import AuditEntry


@pytest.fixture
def versions(agent: Any, by: Any) -> list[Any]:
    """filer:1, the champion, and filer:2."""
    return [
        register_version(
            by=by,
            model=agent.registered_model,
            new=NewVersion(artifact=ArtifactFactory(workspace=agent.workspace), method=method),
        )
        for method in ("pretrain", "posterior")
    ]


@pytest.fixture
def experiment(versions: list[Any], by: Any) -> Experiment:
    return start_experiment(by=by, treatment=versions[1], plan=ExperimentPlan(), name="posterior against base")


def observe(experiment: Experiment, count: int) -> None:
    phase = experiment.phases.get()
    for position in range(1, count + 1):
        ObservationFactory(
            exposure=ExposureFactory(phase=phase),
            position=position,
            log_e_plus=position / 100,
            log_e_minus=-position / 100,
        )


def at(name: str, row: Any, slug: str | None = None) -> str:
    return reverse(f"pages:{name}", args=[slug or row.workspace.slug, row.pk])


def champion(versions: list[Any]) -> int:
    return Alias.objects.get(registered_model=versions[0].registered_model, name="champion").version.number


class TestModels:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:models", args=[workspace.slug])

    def test_it_says_who_serves_and_who_passed(
        self, experiment: Experiment, versions: list[Any], viewer: Any, path: str, page_client: Any
    ) -> None:
        GateVerdictFactory(version=versions[1], against=versions[0], estimate=0.123)
        page = page_client(viewer).get(path).content.decode()
        assert "champion" in page and "challenger" in page and "+12.3 pts" in page

    def test_an_empty_registry_says_what_to_do(self, viewer: Any, path: str, page_client: Any) -> None:
        assert "No model yet" in page_client(viewer).get(path).content.decode()

    def test_the_queries_do_not_grow_with_the_versions(
        self, versions: list[Any], viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        for _ in range(30):
            version = ModelVersionFactory(registered_model=versions[0].registered_model)
            GateVerdictFactory(version=version, against=versions[0])
        client = page_client(viewer)
        with django_assert_max_num_queries(11):
            shown = client.get(path).context["models"][0].newest
        assert [version.number for version in shown] == list(range(32, 12, -1))


class TestPromote:
    def test_an_admin_is_asked_first_and_the_audit_knows(
        self, versions: list[Any], admin: Any, page_client: Any
    ) -> None:
        client = page_client(admin)
        asked = client.get(at("version-promote", versions[1]))
        assert asked.status_code == 200 and champion(versions) == 1
        done = client.post(at("version-promote", versions[1]))
        assert done["Location"] == at("version", versions[1])
        assert champion(versions) == 2
        assert AuditEntry.objects.filter(actor=admin.email, action="alias.champion").count() == 1

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_are_refused(
        self, persona: str, status: int, versions: list[Any], page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert client.post(at("version-promote", versions[1])).status_code == status
        assert champion(versions) == 1

    def test_an_admin_of_elsewhere_cannot_reach_it_through_their_own_workspace(
        self, versions: list[Any], outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        path = at("version-promote", versions[1], other_workspace.slug)
        assert page_client(outsider).post(path).status_code == 404
        assert champion(versions) == 1


class TestExperiments:
    def test_the_list_shows_estimate_and_verdict(self, experiment: Experiment, viewer: Any, page_client: Any) -> None:
        Experiment.objects.update(estimate=0.0456, low=0.0123, high=0.0789, verdict="more units are needed")
        page = page_client(viewer).get(reverse("pages:experiments", args=[experiment.workspace.slug]))
        text = page.content.decode()
        assert "+0.0456" in text and "[+0.0123, +0.0789]" in text and "more units are needed" in text

    def test_the_detail_shows_arms_and_bounds(self, experiment: Experiment, viewer: Any, page_client: Any) -> None:
        page = page_client(viewer).get(at("experiment", experiment)).content.decode()
        assert "filer:1" in page and "filer:2" in page and "E⁺ ≥ 40" in page and "at least 7 d" in page

    def test_the_status_is_polled_while_it_runs_and_then_no_more(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        client = page_client(viewer)
        running = client.get(at("experiment-status", experiment))
        assert running.status_code == 200 and "hx-trigger" in running.content.decode()
        Experiment.objects.update(state="promoted", ended_at=timezone.now())
        over = client.get(at("experiment-status", experiment))
        assert over.status_code == 286 and "hx-trigger" not in over.content.decode()

    def test_the_chart_reads_the_evidence_and_the_thresholds(
        self, experiment: Experiment, viewer: Any, page_client: Any
    ) -> None:
        observe(experiment, 3)
        found = page_client(viewer).get(at("experiment-evidence", experiment)).json()
        assert found["x"] == [1, 2, 3] and found["log_e_plus"] == [0.01, 0.02, 0.03]
        assert found["promote_at"] == pytest.approx(math.log(40)) and not found["terminal"]

    def test_long_evidence_is_thinned_and_keeps_its_end(
        self, experiment: Experiment, viewer: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("models_registry.views.CHART_POINTS", 4)
        observe(experiment, 10)
        found = page_client(viewer).get(at("experiment-evidence", experiment)).json()
        assert found["x"] == [1, 4, 7, 10]

    @pytest.mark.parametrize("name", ["experiment", "experiment-status", "experiment-evidence", "experiment-stop"])
    def test_an_outsider_finds_nothing(
        self, name: str, experiment: Experiment, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        assert client.get(at(name, experiment)).status_code == 404
        assert client.get(at(name, experiment, other_workspace.slug)).status_code == 404

    def test_an_admin_stops_it_once(self, experiment: Experiment, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        assert client.get(at("experiment-stop", experiment)).status_code == 200
        experiment.refresh_from_db()
        assert experiment.state == "running"
        assert client.post(at("experiment-stop", experiment))["Location"] == at("experiment", experiment)
        experiment.refresh_from_db()
        assert experiment.state == "stopped" and admin.email in experiment.verdict
        assert client.post(at("experiment-stop", experiment)).status_code == 409

    @pytest.mark.parametrize("persona", ["viewer", "labeller"])
    def test_lower_roles_see_no_button_and_are_refused(
        self, persona: str, experiment: Experiment, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert "Stop…" not in client.get(at("experiment", experiment)).content.decode()
        assert client.post(at("experiment-stop", experiment)).status_code == 403
        experiment.refresh_from_db()
        assert experiment.state == "running"
