"""The lineage of versions, runs and datasets: both directions, one statement, and nothing of another workspace."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from tools.factories import (
    DatasetSnapshotFactory,
    ExperimentFactory,
    ExportJobFactory,
    ModelVersionFactory,
    TrainingRunFactory,
    VariantFactory,
)
from training.lineage.versions import VERSION, read_lineage
from training.models import TrainingRun


@pytest.fixture
def made(agent: Any) -> dict[str, Any]:
    """rows → run → filer:1 → run on further rows → filer:2, an adapter on filer:1, exported and tried → run → filer:3;
    a judge valued that last run's texts."""
    model = agent.registered_model
    judge = ModelVersionFactory(registered_model=model, artifact__kind="reward_model")
    first = ModelVersionFactory(registered_model=model)
    second = ModelVersionFactory(registered_model=model, parent=first, base=first, artifact__kind="adapter")
    third = ModelVersionFactory(registered_model=model, parent=second)
    rows, later, held_out = (DatasetSnapshotFactory(agent=agent, name=name) for name in ("rows", "later", "held out"))
    runs = []
    for version, base, dataset, spec in (
        (first, None, rows, {}),
        (second, first, later, {}),
        (third, second, later, {"reward": [{"name": "model", "version": str(judge.id)}, {"name": "matches_answer"}]}),
    ):
        run = TrainingRunFactory(
            agent=agent, dataset=dataset, heldout=held_out, base_version=base, base_model="" if base else "tiny",
            spec=spec, method="sft",
        )  # fmt: skip
        over = {"state": "succeeded", "started_at": run.created_at, "finished_at": run.created_at}
        TrainingRun.objects.filter(id=run.id).update(produced_version=version, **over)
        runs.append(run)
    experiment = ExperimentFactory(registered_model=model, name="second against first")
    VariantFactory(experiment=experiment, arm="control", version=first)
    VariantFactory(experiment=experiment, arm="treatment", version=second)
    ExportJobFactory(version=second)
    return {"first": first, "second": second, "third": third, "rows": rows, "runs": runs, "experiment": experiment}


def names(nodes: Any) -> list[tuple[int, str, str]]:
    return [(one.distance, one.kind, one.name) for one in nodes]


def test_both_directions_come_by_one_statement(
    made: dict[str, Any], agent: Any, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        found = read_lineage(agent.workspace, VERSION, made["second"].id)
    assert sorted(names(found.above)) == [
        (-3, "dataset", "rows"),
        (-2, "dataset", "held out"),
        (-2, "dataset", "later"),
        (-2, "run", "Filer sft"),
        (-1, "run", "Filer sft"),
        (-1, "version", "filer:2"),
    ]
    assert sorted(names(found.below)) == [
        (1, "experiment", "second against first"),
        (1, "export", "filer:3, merged"),
        (1, "run", "Filer sft"),
        (2, "version", "filer:4"),
    ]
    assert {one.role for one in found.links} == {
        "train", "heldout", "produced", "base", "weights", "treatment", "merged",
    }  # fmt: skip


def test_the_api_tells_it_from_any_start(made: dict[str, Any], agent: Any, api: Any) -> None:
    reader = api("export:read")
    of_rows = reader.get(f"datasets/{made['rows'].id}/lineage").json()["nodes"]
    assert [(one["distance"], one["name"]) for one in of_rows[:3]] == [(0, "rows"), (1, "Filer sft"), (2, "filer:2")]
    assert {one["name"] for one in of_rows} >= {"filer:3", "filer:4", "second against first"}
    last = reader.get(f"versions/{made['third']}/lineage").json()
    assert "filer:1" in {one["name"] for one in last["nodes"] if one["distance"] < 0}  # the judge of its run
    assert reader.get(f"runs/{made['runs'][2].id}/lineage").json()["nodes"][-1]["name"] == "filer:4"


def test_the_page_shows_it(made: dict[str, Any], agent: Any, viewer: Any, page_client: Any) -> None:
    page = page_client(viewer).get(reverse("pages:version", args=[agent.workspace.slug, made["second"].id]))
    shown = " ".join(page.content.decode().split())
    for part in ("adapter on <a", "treatment of <a", "exported as filer:3, merged", "created <a", "training rows <a"):
        assert part in shown, part
