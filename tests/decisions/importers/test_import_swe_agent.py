"""Trajectories of SWE-agent: each command with what was said before it, and whether the task was solved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decisions.models import Decision, Episode, Feedback, Step

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "swe-agent", "--create-agents", "--observed-at", "2024-06-20T00:00:00Z")


def step(action: str, **fields: Any) -> dict[str, Any]:
    return {
        "action": action,
        "observation": "a.py\n",
        "response": f"I run it.\n```\n{action}```",
        "thought": "I run it.",
        "state": {"working_dir": "/repo"},
        "execution_time": 0.5,
    } | fields


def trajectory(**fields: Any) -> dict[str, Any]:
    return {
        "environment": "swe_main",
        "trajectory": [step("ls -F\n"), step("submit", observation="diff"), step("", observation="", response="Done.")],
        "history": [
            {"role": "system", "content": "You fix bugs.", "agent": "main"},
            {"role": "user", "content": "It crashes.", "agent": "main"},
            {"role": "assistant", "content": "I run it.", "agent": "main"},
        ],
        "info": {
            "exit_status": "submitted",
            "submission": "diff",
            "model_stats": {"instance_cost": 0.7, "api_calls": 3},
        },
        "replay_config": json.dumps({"agent": {"model": {"name": "gpt-4o"}}}),
    } | fields


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def test_a_trajectory_is_an_episode_with_a_decision_for_each_step(importing: Any, tmp_path: Path) -> None:
    done = importing(write(tmp_path / "acme__shop-7.traj", trajectory()), *FLAGS)
    assert done.code == 0, done.errors
    listed, submitted, last = Decision.objects.order_by("id")
    assert Episode.objects.get().external_id == "acme__shop-7" and listed.agent.slug == "swe-agent"
    assert listed.action == [{"name": "run", "arguments": {"command": "ls -F"}}]
    assert (listed.reasoning, listed.policy_name, listed.step_number) == ("I run it.", "gpt-4o", 0)
    said = [("system", "You fix bugs."), ("user", "It crashes.")]
    assert [(one["role"], one["content"]) for one in listed.state["messages"]] == said
    assert [one["role"] for one in submitted.state["messages"]] == ["system", "user", "assistant", "user"]
    assert (last.action, last.completion) == ("Done.", "Done.")
    assert list(Step.objects.order_by("id").values_list("name", "result", "duration_ms")) == [
        ("run", "a.py\n", 500),
        ("run", "diff", 500),
    ]
    assert dict(Feedback.objects.values_list("metric", "value")) == {"exit_status": "submitted", "cost": 0.7}


def test_what_the_model_was_shown_stands_before_what_was_said(importing: Any, tmp_path: Path) -> None:
    shown = [{"role": "system", "content": "Cut."}, {"role": "user", "content": "It crashes."}]
    for name, field in (("a.traj", "query"), ("b.traj", "messages")):
        importing(write(tmp_path / name, trajectory(trajectory=[step("ls", **{field: shown})])), *FLAGS)
    assert [one.state["messages"] for one in Decision.objects.all()] == [shown, shown]


def test_a_report_says_which_were_solved(importing: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / "runs" / name / f"{name}.traj", trajectory())
    write(tmp_path / "runs" / "a.report.json", {"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": []})
    done = importing(tmp_path / "runs", *FLAGS)
    assert done.code == 0, done.errors
    rewards = {one.episode.external_id: one.value for one in Feedback.objects.filter(metric="reward")}
    assert rewards == {"a": 1, "b": 0}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (trajectory(trajectory=[]), "trajectory: has no steps, so nothing was decided"),
        (trajectory(trajectory=["ls"]), "trajectory[0]: is not an object"),
        ({"trajectory_format": "mini-swe-agent-1", "messages": []}, "trajectory_format: is mini-swe-agent's"),
        ({"history": []}, "trajectory: is missing, so this is no trajectory of SWE-agent"),
    ],
)
def test_what_is_no_trajectory_is_refused_by_what_it_is(
    importing: Any, tmp_path: Path, value: Any, reason: str
) -> None:
    write(tmp_path / "runs" / "b.traj", value)
    write(tmp_path / "runs" / "a.traj", trajectory())
    done = importing(tmp_path / "runs", *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, 3)
    assert [reason in one for one in done.report["refusals"]] == [True], done.report
