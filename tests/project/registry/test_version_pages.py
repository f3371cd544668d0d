"""Pages of models and their versions: who serves, and what each version was worth."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from tools.factories import (
    DatasetSnapshotFactory,
    EvaluationFactory,
    GateVerdictFactory,
    ModelVersionFactory,
    RegisteredModelFactory,
    TrainingRunFactory,
)


def score(mean: float) -> dict[str, Any]:
    return {"mean": mean, "low": mean - 0.02, "high": mean + 0.02, "n": 100, "clusters": 20}


def measure(version: Any, against: Any, dataset: Any, base: float, trained: float) -> None:
    run = TrainingRunFactory(agent=dataset.agent, base_version=against, base_model="")
    EvaluationFactory(
        run=run,
        version=version,
        against=against,
        dataset=dataset,
        scores={
            name: {"accuracy": score(value), "reward": score(value)}
            for name, value in (("base", base), ("trained", trained))
        },
        differences={"accuracy": score(trained - base)},
    )


@pytest.fixture
def path(workspace: Any) -> str:
    return reverse("pages:models", args=[workspace.slug])


def test_it_says_who_serves_who_is_tried_and_who_passed(
    versions: list[Any], by: Any, viewer: Any, path: str, page_client: Any
) -> None:
    GateVerdictFactory(version=versions[1], against=versions[0], estimate=0.123)
    experiment = start_experiment(by=by, treatment=versions[1], plan=ExperimentPlan(), reason="a better one")
    answer = page_client(viewer).get(path)
    (sheet,) = answer.context["sheets"]
    assert sheet["aliases"] == {"champion": versions[0], "challenger": versions[1]}
    assert sheet["experiment"] == experiment
    assert "+12.3 pts" in answer.content.decode()


def test_the_chart_is_the_evaluations_of_the_database_a_series_for_each_dataset(
    agent: Any, versions: list[Any], viewer: Any, path: str, page_client: Any
) -> None:
    first, second = (DatasetSnapshotFactory(agent=agent, name=name) for name in ("passages", "letters"))
    measure(versions[1], versions[0], first, 0.5, 0.7)
    third = ModelVersionFactory(registered_model=agent.registered_model)
    measure(third, versions[1], second, 0.6, 0.65)
    (sheet,) = page_client(viewer).get(path).context["sheets"]
    chart = sheet["chart"]
    assert chart["x"]["values"] == [1, 2, 3]
    assert {one["label"]: one["values"] for one in chart["series"]} == {
        "passages": [50.0, 70.0, None],
        "letters": [None, 60.0, 65.0],
    }
    assert chart["series"][0]["low"][0] == pytest.approx(48.0)
    shown = {line["version"].number: line["score"]["mean"] for line in sheet["lines"]}
    assert shown == {1: 0.5, 2: 0.7, 3: 0.65}  # the first was only ever a base


def test_every_page_shows_the_same_figure_of_a_version(
    agent: Any, versions: list[Any], viewer: Any, path: str, page_client: Any
) -> None:
    """Also of one that was only ever a base, and scored otherwise on other rows each time."""
    second, third = versions[1], ModelVersionFactory(registered_model=agent.registered_model)
    measure(third, versions[0], DatasetSnapshotFactory(agent=agent), 0.533, 0.7)
    measure(second, versions[0], DatasetSnapshotFactory(agent=agent), 0.556, 0.6)
    measure(third, second, DatasetSnapshotFactory(agent=agent), 0.65, 0.75)
    client = page_client(viewer)
    (sheet,) = client.get(path).context["sheets"]
    shown = {line["version"].number: line["reward"]["mean"] for line in sheet["lines"]}
    assert shown == {1: 0.556, 2: 0.6, 3: 0.75}
    home = client.get(reverse("pages:overview", args=[agent.workspace.slug])).context["home"]
    assert {one.number: one.reward["mean"] for one in home.comparison.curve} == shown


def test_an_empty_registry_says_what_to_do(viewer: Any, workspace: Any, path: str, page_client: Any) -> None:
    client = page_client(viewer)
    assert "No models yet" in client.get(path).content.decode()
    RegisteredModelFactory(workspace=workspace)
    assert "No versions yet" in client.get(path).content.decode()


def test_the_queries_do_not_grow_with_the_versions(
    agent: Any, versions: list[Any], viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    dataset = DatasetSnapshotFactory(agent=agent)
    for _ in range(30):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        GateVerdictFactory(version=version, against=versions[0])
        measure(version, versions[0], dataset, 0.5, 0.6)
    client = page_client(viewer)
    with django_assert_max_num_queries(15):
        shown = client.get(path).context["models"][0].newest
    assert [version.number for version in shown] == list(range(32, 12, -1))


def test_nothing_of_another_workspace_is_shown(outsider: Any, versions: list[Any], path: str, page_client: Any) -> None:
    assert page_client(outsider).get(path).status_code == 404
