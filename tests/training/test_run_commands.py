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
        (("status", "latest"), "is not the id of a run"),
        (("stop", "nonsense"), "is not the id of a run"),
        (("start", "--agent", "filer", "--set", "{"), "--set:"),
        (("start", "--agent", "filer", "--set", "[]"), "JSON object"),
    ],
)
def test_what_does_not_exist_is_refused(arguments: tuple[str, ...], says: str, agent: Any) -> None:
    code, said = refused(*arguments)
    assert code == 2 and says in said and not TrainingRun.objects.exists()
