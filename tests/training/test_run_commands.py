"""`manage.py runs`: what a page does with runs, from a terminal."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from jobs.models import Job
from models_registry.models import Alias, AliasName
from tools.factories import DatasetSnapshotFactory, ModelVersionFactory, TrainingRunFactory
from training.models import TrainingRun

pytestmark = pytest.mark.django_db


def ask(*arguments: str) -> dict[str, Any]:
    output = io.StringIO()
    call_command("runs", *arguments, "--json", stdout=output)
    told: dict[str, Any] = json.loads(output.getvalue())
    return told


def refused(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("runs", *arguments, stderr=said, stdout=io.StringIO())
    return int(ended.value.code or 0), said.getvalue()


def test_a_run_is_started_shown_and_stopped(agent: Any) -> None:
    assert ask("list") == {"runs": []}
    code, said = refused("start", "--agent", agent.slug)
    assert code == 1 and "neither labelled rows" in said
    DatasetSnapshotFactory(agent=agent, rows=30)
    code, said = refused("start", "--agent", agent.slug, "--set", '{"optimiser": {"epochs": 0}}')
    assert code == 1 and "optimiser.epochs" in said and not TrainingRun.objects.exists() and not Job.objects.exists()
    changes = json.dumps({"optimiser": {"epochs": 2}, "seed": 4})
    started = ask("start", "--agent", agent.slug, "--set", changes)
    run = TrainingRun.objects.get()
    assert started["run"] == str(run.pk) and started["state"] == "queued" and started["estimate"]["seconds"] > 0
    assert run.spec["seed"] == 4 and run.spec["optimiser"] == {"learning_rate": 3e-3, "epochs": 2}
    assert ask("status")["run"] == str(run.pk) and [one["run"] for one in ask("list")["runs"]] == [str(run.pk)]
    ask("stop", str(run.pk))
    assert ask("status")["state"] == "cancelled"
    code, said = refused("switch", str(run.pk))
    assert code == 1 and "has made no version" in said


def test_a_sweep_starts_a_run_for_each_combination_or_none(agent: Any) -> None:
    DatasetSnapshotFactory(agent=agent, rows=30)
    asked = ("sweep", "--agent", agent.slug, "--set", '{"optimiser": {"epochs": 2}}', "--grid")
    for grid, says in (('{"seed": []}', "has no list"), ("{}", "0 runs"), ('{"seed": [1, -1]}', "with seed -1")):
        code, said = refused(*asked, grid)
        assert code == 1 and says in said and not TrainingRun.objects.exists()
    told = ask(*asked, '{"optimiser.learning_rate": [0.001, 0.002]}')
    runs = [TrainingRun.objects.get(pk=run["run"]) for run in told["runs"]]
    assert [(run.spec["optimiser"], run.tags) for run in runs] == [
        ({"learning_rate": rate, "epochs": 2}, [told["tag"]]) for rate in (0.001, 0.002)
    ]
    assert told["runs"][1]["notes"] == "optimiser.learning_rate 0.002"


def test_a_preset_and_a_dataset_are_started_with(agent: Any) -> None:
    base = ModelVersionFactory(registered_model=agent.registered_model)
    preset = ("start", "--agent", agent.slug, "--preset", "reward-weighted-lora")
    code, said = refused(*preset)
    assert code == 1 and "no dataset of text rows" in said
    dataset, newer = (DatasetSnapshotFactory(agent=agent, kind="text", rows=30) for _ in range(2))
    code, said = refused(*preset, "--dataset", str(base.id))
    assert code == 2 and "--dataset" in said and not TrainingRun.objects.exists()
    started = ask(*preset, "--dataset", str(dataset.id), "--set", '{"optimiser": {"epochs": 1}}')
    run = TrainingRun.objects.get(pk=started["run"])
    assert (run.method, run.dataset, run.base_version) == ("reward_weighted", dataset, base)
    assert run.spec["lora"] == {"r": 8, "alpha": 16, "dropout": 0.1, "targets": "query-value"}
    assert (run.spec["optimiser"]["batch_size"], run.spec["optimiser"]["epochs"]) == (1, 1)
    assert TrainingRun.objects.get(pk=ask(*preset)["run"]).dataset == newer


def test_switching_makes_the_run_s_version_the_champion(agent: Any) -> None:
    first = ModelVersionFactory(registered_model=agent.registered_model)
    Alias.objects.create(
        workspace=agent.workspace, registered_model=agent.registered_model, name=AliasName.CHAMPION, version=first
    )
    made = ModelVersionFactory(registered_model=agent.registered_model)
    done = timezone.now()
    run = TrainingRunFactory(agent=agent, state="succeeded", finished_at=done, produced_version=made)
    assert ask("switch", str(run.pk))["version"] == str(made)
    assert Alias.objects.get(registered_model=agent.registered_model, name=AliasName.CHAMPION).version == made


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("start",), "--agent: name one of: filer"),
        (("sweep", "--agent", "filer", "--grid", "[]"), "--grid: give a JSON object"),
        (("status", "latest"), "is not the id of a run"),
        (("stop", "nonsense"), "is not the id of a run"),
        (("start", "--agent", "filer", "--set", "{"), "--set:"),
        (("start", "--agent", "filer", "--set", "[]"), "JSON object"),
    ],
)
def test_what_does_not_exist_is_refused(arguments: tuple[str, ...], says: str, agent: Any) -> None:
    code, said = refused(*arguments)
    assert code == 2 and says in said and not TrainingRun.objects.exists()
