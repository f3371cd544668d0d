"""`manage.py monitor`: the newest run, its figures, time and cost, once or until it ends."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from tools.factories import TrainingRunFactory
from training.local.watching import leave_note
from training.models import RunEvent, RunMetric, TrainingRun

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_other_training(settings: Any, tmp_path: Any) -> None:
    """What other tests train in folders is not the newest here."""
    settings.VAR = tmp_path


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


@pytest.fixture
def trained(settings: Any, tmp_path: Path) -> Path:
    """The output folder of a training that has begun."""
    run_dir = tmp_path / "out" / "run"
    (run_dir / "attempts" / "1").mkdir(parents=True)
    (run_dir / "spec.json").write_text(json.dumps({"method": "grpo"}))
    leave_note(run_dir, 60.0)
    return run_dir.parent


def say(output: Path, *events: dict[str, Any]) -> None:
    at = timezone.now().isoformat()
    lines = "".join(json.dumps({"at": at} | event) + "\n" for event in events)
    (output / "run" / "attempts" / "1" / "events.jsonl").write_text(lines + '{"kind": "met')


HALF = (
    {"kind": "metric", "step": 1, "values": {"entropy": 1.0, "loss": 0.9}},
    {"kind": "metric", "step": 2, "values": {"loss": 0.4}},
    {"kind": "progress", "step": 2, "total": 4, "fraction": 0.5, "share": 0.5, "message": "update 2 of 4"},
    {"kind": "warning", "message": "little memory"},
)


def test_a_training_in_a_folder_is_the_newest_until_a_run_begins(agent: Any, trained: Path) -> None:
    say(trained, *HALF)
    code, told, _ = ask("--json")
    seen = json.loads(told)
    assert (code, seen["run"], seen["state"], seen["progress"]) == (0, str(trained), "running", 0.5)
    assert list(seen["figures"].items()) == [("loss", 0.4), ("entropy", 1.0)] and seen["steps"] == 2
    assert (seen["estimated_seconds"], seen["warning"]) == (60.0, "little memory")
    assert all(one in ask()[1] for one in ("grpo by manage.py train", "running, update 2 of 4", "1 min estimated"))
    newer = TrainingRunFactory(agent=agent)
    assert json.loads(ask("--json")[1])["run"] == str(newer.pk)
    assert json.loads(ask("--run-id", str(trained), "--json")[1])["steps"] == 2
    assert json.loads(ask("--agent", "filer", "--json")[1])["run"] == str(newer.pk)


@pytest.mark.parametrize(
    ("last", "state", "error"),
    [
        ({"kind": "finished", "result": "result.json"}, "succeeded", ""),
        ({"kind": "failed", "error": "out of disk"}, "failed", "out of disk"),
        ({"kind": "stopped", "reason": "SIGTERM", "step": 2}, "cancelled", "SIGTERM"),
        (None, "failed", "its process ended without saying how"),
    ],
)
def test_watching_a_folder_ends_with_its_training(
    trained: Path, last: dict[str, Any] | None, state: str, error: str
) -> None:
    say(trained, *HALF, *([last] if last is not None else []))
    note = trained / "run" / "process.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"pid": 2**30}))
    code, told, _ = ask("--run-id", str(trained), "--watch", "--json")
    seen = json.loads(told)
    assert (code, seen["state"], seen["error"]) == (int(state != "succeeded"), state, error)
    assert ask("--watch", "--json")[0] == code
