"""Sweeps over a grid, and what people write about runs."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from tools.factories import DatasetSnapshotFactory, TrainingRunFactory
from training.models import TrainingRun

pytestmark = pytest.mark.django_db


@pytest.fixture
def body(agent: Any) -> dict[str, Any]:
    dataset = DatasetSnapshotFactory(agent=agent, rows=12)
    return {"agent": agent.slug, "method": "pretrain", "dataset": str(dataset.id), "base_model": "tiny"}


def test_a_grid_starts_a_run_for_each_combination(body: dict[str, Any], api: Any) -> None:
    client = api("admin", "export:read")
    grid = {"optimiser.learning_rate": [0.001, 0.002], "seed": [1, 2, 3]}
    answer = client.post("runs/sweeps", body | {"settings": {"optimiser": {"epochs": 2}}, "grid": grid})
    assert answer.status_code == 201
    runs = [TrainingRun.objects.get(pk=pk) for pk in answer.json()["runs"]]
    tried = [(run.spec["optimiser"]["learning_rate"], run.spec["seed"]) for run in runs]
    assert tried == [(rate, seed) for rate in (0.001, 0.002) for seed in (1, 2, 3)]
    assert {run.spec["optimiser"]["epochs"] for run in runs} == {2} and Job.objects.count() == 6
    assert runs[0].notes == "optimiser.learning_rate 0.001, seed 1"
    TrainingRunFactory(agent=runs[0].agent)
    found = client.get(f"runs?tag={answer.json()['tag']}").json()["results"]
    assert {run["id"] for run in found} == set(answer.json()["runs"])


@pytest.mark.parametrize(
    ("grid", "field", "says"),
    [
        ({"seed": [1, 2], "optimiser.epochs": [1, 0]}, "optimiser.epochs", "with seed 1, optimiser.epochs 0"),
        ({"seed": list(range(5)), "threads": [1, 2, 3, 4, 5]}, "grid", "25 runs"),
        ({}, "grid", "0 runs"),
        ({"method": ["pretrain"]}, "settings.method", "is filled in by the run"),
    ],
)
def test_a_sweep_of_which_one_run_could_not_start_starts_none(
    grid: dict[str, Any], field: str, says: str, body: dict[str, Any], api: Any
) -> None:
    answer = api("admin").post("runs/sweeps", body | {"grid": grid})
    assert answer.status_code == 400
    faults: dict[str, str] = {}
    for fault in answer.json()["error"]["fields"]:
        faults.setdefault(fault["field"], fault["reason"])
    assert says in faults[field]
    assert not TrainingRun.objects.exists() and not Job.objects.exists()


def test_tags_and_notes_are_people_s_own(agent: Any, api: Any, admin: Any, viewer: Any, page_client: Any) -> None:
    run = TrainingRunFactory(agent=agent)
    told = api("admin").request("PATCH", f"runs/{run.pk}", {"tags": ["b", "a", "a"], "notes": "The first try."}).json()
    assert (told["tags"], told["notes"]) == (["a", "b"], "The first try.")
    assert api("admin").request("PATCH", f"runs/{run.pk}", {"notes": ""}).json()["tags"] == ["a", "b"]
    assert api("admin").request("PATCH", f"runs/{run.pk}", {"tags": ["two words"]}).status_code == 400
    path = reverse("pages:run-note", args=[run.workspace.slug, run.pk])
    assert page_client(viewer).post(path, {"tags": "c"}).status_code == 403
    run.refresh_from_db()
    assert run.tags == ["a", "b"]
    page_client(admin).post(path, {"tags": "c, d", "notes": "Better."})
    run.refresh_from_db()
    assert (run.tags, run.notes) == (["c", "d"], "Better.")
    listed = page_client(viewer).get(reverse("pages:runs", args=[run.workspace.slug]), {"tag": "c"})
    assert str(run.pk) in listed.content.decode()
    other = page_client(viewer).get(reverse("pages:runs", args=[run.workspace.slug]), {"tag": "x"})
    assert str(run.pk) not in other.content.decode()
