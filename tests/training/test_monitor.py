"""`manage.py monitor`: the newest run, its figures, time and cost, once or until it ends."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from tools.factories import TrainingRunFactory
from training.models import RunEvent, RunMetric, TrainingRun

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(agent: Any) -> TrainingRun:
    """One that has failed, after two hours, with an earlier attempt."""
    now = timezone.now()
    run: TrainingRun = TrainingRunFactory(agent=agent, estimate={"seconds": 3600.0})
    TrainingRun.objects.filter(pk=run.pk).update(
        state="failed", error="out of disk", started_at=now - dt.timedelta(hours=2), finished_at=now, progress=0.5
    )
    for attempt, step, value in ((1, 8, 0.9), (2, 6, 0.4), (2, 7, 0.3)):
        RunMetric.objects.create(run=run, attempt=attempt, step=step, name="loss", value=value)
    RunMetric.objects.create(run=run, attempt=2, step=7, name="entropy", value=1.5)
    RunEvent.objects.create(
        run=run, attempt=2, sequence=1, kind="warning", details={"message": "little memory"}, at=now
    )
    run.refresh_from_db()
    return run


def ask(*arguments: str) -> tuple[int, str, str]:
    said, output = io.StringIO(), io.StringIO()
    try:
        call_command("monitor", *arguments, stdout=output, stderr=said)
    except SystemExit as ended:
        return int(ended.code or 0), output.getvalue(), said.getvalue()
    return 0, output.getvalue(), said.getvalue()


def test_the_newest_run_is_shown_with_its_newest_figures_time_and_cost(run: TrainingRun, settings: Any) -> None:
    code, told, _ = ask("--json")
    seen = json.loads(told)
    assert (code, seen["run"], seen["state"], seen["cost"]) == (0, str(run.pk), "failed", None)
    assert list(seen["figures"].items()) == [("loss", 0.3), ("entropy", 1.5)] and seen["steps"] == 7
    settings.MACHINE_HOUR_PRICE = 2.5
    seen = json.loads(ask("--run-id", str(run.pk), "--json")[1])
    assert (seen["elapsed_seconds"], seen["cost"], seen["estimated_cost"]) == (7200, 5.0, 2.5)
    shown = ask()[1]
    assert all(one in shown for one in ("5.00 so far, estimated 2.50", "out of disk", "little memory", "2 h"))


def test_watching_ends_with_the_run_and_says_by_its_code_how(run: TrainingRun) -> None:
    code, told, _ = ask("--watch", "--json")
    assert code == 1 and len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--run-id", "17"), "--run-id: '17' is not the id of a run here"),
        (("--agent", "nobody"), "--agent: name one of: "),
        (("--every", "0"), "--every: 0 must be above 0"),
        ((), "there are no runs yet"),
    ],
)
def test_what_is_not_there_is_refused(arguments: tuple[str, ...], says: str, agent: Any) -> None:
    code, _, said = ask(*arguments)
    assert code == 2 and says in said
