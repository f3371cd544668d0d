"""A ToolBox checkpoint's `task_state`: nothing of it is lost, and what overlaps comes once."""

import json

import pytest

from decisions.models import Decision, Episode, Step
from tests.decisions.importers.conftest import counts
from tests.decisions.importers.test_import_toolbox import FLAGS, checkpoint, history, write

pytestmark = pytest.mark.django_db


def task(key, **fields):
    """As FlowAgent writes one."""
    return {
        "id": key,
        "type": "LLMTask",
        "description": f"Summarise part {key}",
        "status": "completed",
        "priority": 1,
        "dependencies": [],
        "subtasks": [],
        "result": f"Part {key} is short.",
        "error": None,
        "created_at": "2025-11-02T09:00:00",
        "started_at": "2025-11-02T09:00:01",
        "completed_at": "2025-11-02T09:00:02.500000",
        "metadata": {},
        "retry_count": 0,
    } | fields


CALL = task(
    "t2",
    type="ToolTask",
    description="How large is the file?",
    tool_name="file_size",
    arguments={"path": "a.txt"},
    result="12",
)
FAILED = task("t3", status="failed", result=None, error="no net", description="Send it.")
WAITING = task(
    "t4", status="pending", result=None, started_at=None, completed_at=None, dependencies=["t3"], description="Report."
)
TASKS = {"t1": task("t1"), "t2": CALL, "t3": FAILED, "t4": WAITING}


def state(tasks=TASKS, **fields):
    return {"agent_name": "isaa", "timestamp": "2025-11-02T10:00:00", "task_state": tasks} | fields


def test_a_checkpoint_of_tasks_alone_is_restored(importing, tmp_path):
    done = importing(write(tmp_path, a=state()), *FLAGS)
    assert (done.code, done.report["decisions"], done.report["steps"], done.errors) == (0, 3, 5, "")
    made = {one.external_id: one for one in Decision.objects.all()}
    assert {key: (one.state["query"], one.action) for key, one in made.items()} == {
        "t1": ("Summarise part t1", "Part t1 is short."),
        "t2": ("How large is the file?", "12"),
        "t3": ("Send it.", "Error: no net"),
    }
    assert made["t1"].observed_at.isoformat() == "2025-11-02T09:00:02.500000+00:00"
    told = {one.external_id: one for one in Episode.objects.all()}
    assert {name: (one.tasks_created, one.tasks_completed, one.tasks_failed) for name, one in told.items()} == {
        "task_state:t1": (1, 1, None),
        "task_state:t2": (1, 1, None),
        "task_state:t3": (1, None, 1),
        "task_state:t4": (1, None, None),
    }
    steps = {one.external_id: one for one in Step.objects.filter(kind="span")}
    assert {one.external_id: (one.name, one.success, one.attributes) for one in steps.values()} == {
        "/t1": ("task completed", True, TASKS["t1"]),
        "/t2": ("task completed", True, CALL),
        "/t3": ("task failed", False, FAILED),
        "/t4": ("task created", None, WAITING),
    }
    [call] = Step.objects.filter(kind="tool_call")
    assert (call.name, call.arguments, call.result, call.success) == ("file_size", {"path": "a.txt"}, "12", True)
    assert call.decision_id == made["t2"].id


def test_tasks_that_checkpoints_repeat_come_once_and_end_once(importing, tmp_path):
    ended = WAITING | {"status": "completed", "result": "Reported.", "completed_at": "2025-11-02T11:00:00"}
    folder = write(tmp_path, a=state(), b=state(TASKS | {"t4": ended}, timestamp="2025-11-02T12:00:00"))
    done = importing(folder, *FLAGS)
    assert (done.code, done.report["decisions"], done.report["repeated"]) == (0, 4, 3)
    assert Decision.objects.get(external_id="t4").action == "Reported."
    episode = Episode.objects.get(external_id="task_state:t4")
    assert (episode.tasks_created, episode.tasks_completed) == (1, 1)
    before = counts()
    assert importing(folder, *FLAGS).report["decisions"] == 0
    assert counts() == before


def test_lists_by_how_they_ended_and_tasks_without_ids(importing, tmp_path):
    tasks = {
        "completed": [{"description": "One", "result": {"rows": 3}}],
        "failed": [{"task_id": "x", "description": "Two", "error": "gone"}],
        "pending": [{"description": "Three"}],
    }
    done = importing(write(tmp_path, a=state(tasks)), *FLAGS)
    assert (done.code, done.report["decisions"]) == (0, 2)
    assert {one.state["query"]: one.action for one in Decision.objects.all()} == {
        "One": '{"rows":3}',
        "Two": "Error: gone",
    }
    assert {one.external_id for one in Step.objects.all()} == {"completed/0", "failed/x", "pending/0"}


def test_sessions_and_tasks_of_one_checkpoint_are_both_there(importing, tmp_path):
    done = importing(write(tmp_path, a=checkpoint({"s-1": history(2)}) | state()), *FLAGS)
    assert (done.code, done.report["decisions"]) == (0, 5)


@pytest.mark.parametrize(
    ("bad", "reason", "kept"),
    [
        (state(TASKS | {"t9": "gone"}), "task_state.t9: is not an object", 3),
        (state({"completed": ["gone", task("t1")]}), "task_state.completed[0]: is not an object", 1),
        (state(TASKS | {"t9": task("t9", completed_at="soon")}), "task_state.t9.completed_at: 'soon' is not", 3),
        (state([1]), "task_state: is not an object", 0),
        (state(session_data=[1]), "session_data: is not an object", 3),
        (state({"t1": {"status": "done"}}, timestamp=None), "task_state.t1.completed_at: the record has no time", 0),
    ],
)
def test_one_bad_task_never_takes_its_neighbours_along(importing, tmp_path, bad, reason, kept):
    done = importing(write(tmp_path, bad=bad, good=state({"good": task("good")})), *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, kept + 1)
    assert [one.startswith(f"{tmp_path / 'bad.json'}:1: {reason}") for one in done.report["refusals"]] == [True]


def test_a_task_that_changed_after_it_ended_is_named_and_not_lost_silently(importing, tmp_path):
    importing(write(tmp_path, a=state({"t1": task("t1")})), *FLAGS)
    (tmp_path / "a.json").write_text(json.dumps(state({"t1": task("t1", result="Other.")})))
    done = importing(tmp_path, *FLAGS)
    assert done.code == 2 and done.report["refused"] >= 1
    assert Decision.objects.get().action == "Part t1 is short."
