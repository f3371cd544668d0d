"""Traces as ToolBox keeps them, out of the ledger: what came in goes out unchanged, and nothing that was erased."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.exports.trace_files import TraceChoice, write_traces
from decisions.models import Agent, Decision
from decisions.models.tombstones import ERASED_HASH
from tests.decisions.importers.conftest import counts, importing  # noqa: F401 - the fixture
from tests.decisions.importers.test_import_toolbox import FLAGS, trace, write
from tests.decisions.importers.test_import_toolbox_tasks import TASKS, state
from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory, LabelFactory, StepFactory

pytestmark = pytest.mark.django_db


def call(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("export_traces", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def whole_trace(**fields: Any) -> dict[str, Any]:
    """With every field that ToolBox writes."""
    made: dict[str, Any] = trace(**fields)
    made["tool_calls"][1] |= {"timestamp": made["timestamp"]}
    return made


def read_tree(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))}


def test_dated_folders_go_out_as_they_came_in(importing: Any, tmp_path: Path) -> None:  # noqa: F811
    """And in again: nothing changes."""
    tree = {
        "2025-11-02/0a1b2c3d4e5f.json": whole_trace(),
        "2025-11-03/9f8e.json": whole_trace(
            trace_id="9f8e", timestamp="2025-11-03T08:00:00", label=False, reward_score=0.1, tasks_failed=[]
        ),
        "2025-11-03/none.json": whole_trace(
            trace_id="none",
            timestamp="2025-11-03T09:00:00",
            label=None,
            reward_score=None,
            manual_review=False,
            review_notes="",
        ),
        "checkpoints/isaa.json": {"agent_name": "isaa", "session_data": {}, "task_state": TASKS},
    }
    given, taken = tmp_path / "given", tmp_path / "taken"
    for path, content in tree.items():
        (given / path).parent.mkdir(parents=True, exist_ok=True)
        (given / path).write_text(json.dumps(content))
    done = importing(given, *FLAGS)
    assert (done.code, done.report["decisions"]) == (0, 6), done.errors
    code, out, _ = call(str(taken), "--agent", "isaa", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"traces": 3, "days": ["2025-11-02", "2025-11-03"], "checkpoints": 1},
    )
    assert read_tree(taken) == tree
    before = counts()
    assert importing(taken, *FLAGS).report["decisions"] == 0
    assert counts() == before


def test_what_people_said_since_is_the_label(importing: Any, tmp_path: Path) -> None:  # noqa: F811
    importing(write(tmp_path, one=trace(label=None, manual_review=False)), *FLAGS)
    decision = Decision.objects.get()
    LabelFactory(decision=decision, verdict="overridden")
    [file] = write_traces(decision.agent)
    told = json.loads(file.body)
    assert (told["label"], told["manual_review"]) == (False, True)


def test_episodes_of_several_decisions_and_decisions_alone_are_traces(agent: Any) -> None:
    episode = EpisodeFactory(agent=agent, external_id="a/../b", query="Two things", final_response="Done.", session="s")
    for number in range(2):
        decision = DecisionFactory(agent=agent, episode=episode, tokens_in=10, latency_ms=5.0)
        FeedbackFactory(decision=decision, value="confirmed" if number else "corrected")
    StepFactory(episode=episode, name="search", success=False, error="no net", duration_ms=3)
    StepFactory(episode=episode, kind="reasoning", name="", content="Think.", confidence=0.5)
    StepFactory(episode=episode, kind="llm_call", name="")
    alone = DecisionFactory(agent=agent, episode=None, state={"text": "x"}, action="graphs")
    StepFactory(episode=None, decision=alone, workspace=agent.workspace, name="look")
    files = {json.loads(file.body)["trace_id"]: file for file in write_traces(agent)}
    assert set(files) == {"a/../b", str(alone.id)}
    whole = json.loads(files["a/../b"].body)
    assert files["a/../b"].path.count("/") == 1 and ".." not in files["a/../b"].path.partition("/")[2][:2]
    assert (whole["user_query"], whole["final_response"], whole["session_id"]) == ("Two things", "Done.", "s")
    assert (whole["label"], whole["manual_review"]) == (False, True)
    assert (whole["total_tokens_in"], whole["execution_duration_ms"], whole["llm_calls_count"]) == (20, 10.0, 1)
    assert [(one["tool_name"], one["success"], one["error"]) for one in whole["tool_calls"]] == [
        ("search", False, "no net")
    ]
    assert whole["reasoning_steps"][0]["content"] == "Think."
    single = json.loads(files[str(alone.id)].body)
    assert (single["user_query"], single["final_response"]) == ('{"text": "x"}', "graphs")
    assert [one["tool_name"] for one in single["tool_calls"]] == ["look"]


def test_traces_of_one_name_have_files_of_their_own(agent: Any) -> None:
    episode = EpisodeFactory(agent=agent, external_id="same", query="q", final_response="a")
    DecisionFactory(agent=agent, episode=episode)
    DecisionFactory(agent=agent, episode=None, external_id="same", state={"text": "x"}, action="graphs")
    paths = [file.path for file in write_traces(agent)]
    assert len(paths) == len(set(paths)) == 2


def test_what_was_erased_and_what_others_have_stays_where_it_is(agent: Any, other_workspace: Any) -> None:
    DecisionFactory(agent=agent, episode=None, content_hash=ERASED_HASH)
    DecisionFactory(agent__workspace=other_workspace, agent__slug="filer")
    assert list(write_traces(agent)) == []


def test_days_labels_and_how_many(agent: Any, importing: Any, tmp_path: Path) -> None:  # noqa: F811
    for day in range(1, 5):
        label = {"label": day % 2 == 0 or None, "manual_review": day % 2 == 0}
        importing(write(tmp_path, one=trace(trace_id=f"t{day}", timestamp=f"2025-11-0{day}T10:00:00", **label)), *FLAGS)
    isaa = Agent.objects.get(slug="isaa")
    folder = tmp_path / "out"
    code, out, _ = call(str(folder), "--agent", "isaa", "--since", "2025-11-02", "--until", "2025-11-04")
    assert (code, sorted(read_tree(folder))) == (0, ["2025-11-02/t2.json", "2025-11-03/t3.json"])
    assert out == f"2 traces of 2 days are in {folder}\n"
    assert [file.path for file in write_traces(isaa, TraceChoice(labelled=True))] == [
        "2025-11-02/t2.json",
        "2025-11-04/t4.json",
    ]
    assert len(list(write_traces(isaa, TraceChoice(most=3)))) == 3
    assert call(str(folder), "--agent", "filer")[0] == 1
    assert call(str(folder), "--agent", "nobody")[0] == 2
    (tmp_path / "file").write_text("")
    code, _, err = call(str(tmp_path / "file"), "--agent", "isaa")
    assert code == 2 and "file" in err


def test_the_tasks_of_checkpoints_by_lists_are_lists_again(importing: Any, tmp_path: Path) -> None:  # noqa: F811
    tasks = {"completed": [{"id": "a", "description": "A", "result": "1", "created_at": "2025-11-01T00:00:00"}]}
    importing(write(tmp_path, a=state(tasks)), *FLAGS)
    [file] = write_traces(Agent.objects.get(slug="isaa"))
    assert json.loads(file.body)["task_state"] == tasks
