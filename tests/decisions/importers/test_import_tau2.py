"""Results of tau2-bench: what the agent saw, did and earned in each simulation."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from decisions.importers.records import Reading
from decisions.importers.tau2 import CHUNK, read_results
from decisions.models import Decision, Episode, Feedback, Step

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "tau-bench", "--create-agents")


def simulation(**fields: Any) -> dict[str, Any]:
    """The agent looks an order up; the user tries a tool of their own, and is told."""
    look = {"id": "c1", "name": "find_order", "arguments": {"order": "A-1"}, "requestor": "assistant"}
    own = {"id": "u1", "name": "reboot", "arguments": {}, "requestor": "user"}
    return {
        "id": "s-1",
        "task_id": "3",
        "timestamp": "2025-06-10T10:00:09",
        "start_time": "2025-06-10T10:00:00",
        "end_time": "2025-06-10T10:00:09",
        "duration": 9.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.02,
        "user_cost": 0.01,
        "reward_info": {"reward": 1.0, "reward_basis": ["DB"], "reward_breakdown": {"DB": 1.0}, "info": None},
        "messages": [
            {"role": "assistant", "content": "Hi! How can I help?", "tool_calls": None, "turn_idx": 0},
            {"role": "user", "content": "Where is A-1?", "tool_calls": None, "turn_idx": 1},
            {"role": "assistant", "content": None, "tool_calls": [look], "turn_idx": 2},
            {"id": "c1", "role": "tool", "content": "sent", "requestor": "assistant", "error": False, "turn_idx": 3},
            {"role": "assistant", "content": "It is sent.", "tool_calls": None, "turn_idx": 4},
            {"role": "user", "content": None, "tool_calls": [own], "turn_idx": 5},
            {"id": "u1", "role": "tool", "content": "on", "requestor": "user", "error": False, "turn_idx": 6},
            {"role": "user", "content": "###STOP###", "tool_calls": None, "turn_idx": 7},
        ],
        "trial": 0,
        "seed": 300,
    } | fields


def results(*simulations: Any) -> dict[str, Any]:
    info = {
        "num_trials": 1,
        "agent_info": {"implementation": "llm_agent", "llm": "gpt-4.1", "llm_args": {}},
        "environment_info": {"domain_name": "retail", "policy": "Be exact.", "tool_defs": None},
    }
    return {"timestamp": "2025-06-10", "info": info, "tasks": [{"id": "3"}], "simulations": list(simulations)}


def write(tmp_path: Path, value: Any, indent: int | None = 2) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(value, indent=indent))
    return path


@pytest.mark.parametrize("indent", [2, None])
def test_a_simulation_is_an_episode_of_what_the_agent_saw(importing: Any, tmp_path: Path, indent: int | None) -> None:
    done = importing(write(tmp_path, results(simulation()), indent), *FLAGS)
    assert done.code == 0, done.errors
    greeting, look, told = Decision.objects.order_by("id")
    assert {one.agent.slug for one in (greeting, look, told)} == {"retail"}
    assert (look.policy_name, look.observed_at.isoformat()[:19]) == ("gpt-4.1", "2025-06-10T10:00:00")
    assert greeting.state == {"messages": [{"role": "system", "content": "Be exact."}]}
    assert look.action == [{"name": "find_order", "arguments": {"order": "A-1"}, "id": "c1"}]
    assert (told.action, told.completion) == ("It is sent.", "It is sent.")
    assert [one["role"] for one in told.state["messages"]] == ["system", "assistant", "user", "assistant", "tool"]
    assert "reboot" not in json.dumps([one.state for one in (greeting, look, told)])
    assert list(Step.objects.order_by("id").values_list("name", "result", "success")) == [
        ("find_order", "sent", True),
        ("user", "###STOP###", None),
    ]
    assert Episode.objects.count() == 1
    values = dict(Feedback.objects.values_list("metric", "value"))
    assert values == {"reward": 1, "reward_db": 1, "agent_cost": 0.02, "user_cost": 0.01}


def test_one_that_was_not_graded_or_is_damaged_leaves_the_others(importing: Any, tmp_path: Path) -> None:
    ended = simulation(id="s-2", reward_info=None, termination_reason="too_many_errors")
    damaged = simulation(id="s-3", note="cut \ud83d")
    path = write(tmp_path, results(simulation(), ended, damaged), None)
    done = importing(path, *FLAGS)
    assert (done.code, done.report["decisions"], done.report["refused"]) == (1, 3, 2), done.report
    assert done.report["refusals"] == [
        f"{path}:1: reward_info.reward: is missing: the run ended by too_many_errors, and was not graded",
        f"{path}:1: The record contains a lone surrogate, which is not valid text.",
    ]


def test_a_simulation_by_itself_needs_an_agent(importing: Any, tmp_path: Path) -> None:
    path = write(tmp_path, simulation())
    assert "names no agent; give --agent" in importing(path, *FLAGS).errors
    assert importing(path, *FLAGS, "--agent", "shop").report["decisions"] == 3


@pytest.mark.parametrize("head", [7, CHUNK - 40, 3 * CHUNK])
@pytest.mark.quick_cases(1)
def test_a_file_of_any_size_is_read_one_simulation_after_the_other(tmp_path: Path, head: int) -> None:
    many = [simulation(id=f"s-{number}", trial=number, note="x" * 50_000) for number in range(60)]
    value = results(*many)
    path = write(tmp_path, {"timestamp": "\n" * (head // 2), "info": value["info"], "tasks": [], **value})
    text = path.read_text()
    reading = Reading(name="tau-bench", workspace="w", now=dt.datetime.now(dt.UTC))
    tracemalloc.start()
    try:
        records = read_results(path, reading)
        assert records is not None
        places = [record.place.line for record in records if record.value["info"] == value["info"]]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert places == [number for number, line in enumerate(text.splitlines(), 1) if line == "    {" and number > 20]
    assert peak < path.stat().st_size + head, "less than the file"


def test_the_rest_of_a_file_that_is_cut_off_is_told(importing: Any, tmp_path: Path) -> None:
    path = write(tmp_path, results(simulation(), simulation(id="s-2", trial=1)))
    path.write_text(path.read_text()[:-400])
    done = importing(path, *FLAGS)
    assert (done.report["decisions"], done.report["refused"]) == (3, 1)
    assert "cut off" in done.report["refusals"][0]
