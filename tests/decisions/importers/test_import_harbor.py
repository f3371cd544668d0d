"""Trajectories of Harbor become episodes of decisions, with token ids and rewards; a failed verifier is no score."""

import copy
import json

import pytest

from decisions.importers.harbor import find_faults
from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "harbor", "--create-agents")
METRICS = {
    "prompt_tokens": 40,
    "completion_tokens": 3,
    "cost_usd": 0.002,
    "prompt_token_ids": [1, 2, 3],
    "completion_token_ids": [7, 8, 9],
    "logprobs": [-0.1, -0.2, -0.3],
}
TRAJECTORY = {
    "schema_version": "ATIF-v1.7",
    "session_id": "run-1",
    "trajectory_id": "main-1",
    "agent": {"name": "Terminus 2", "version": "2.0", "model_name": "small/model"},
    "steps": [
        {"step_id": 1, "timestamp": "2026-10-01T10:00:00Z", "source": "user", "message": "Count the words in notes."},
        {"step_id": 2, "source": "agent", "message": "Before", "is_copied_context": True},
        {
            "step_id": 3,
            "timestamp": "2026-10-01T10:00:05Z",
            "source": "agent",
            "message": "I count them.",
            "reasoning_content": "wc does it",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "wc -w notes"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": [{"type": "text", "text": "12 notes"}]}]},
            "metrics": METRICS,
        },
        {"step_id": 4, "source": "agent", "message": "tidied", "llm_call_count": 0},
        {"step_id": 5, "source": "agent", "message": "There are 12.", "observation": {"results": [{"content": "ok"}]}},
    ],
    "final_metrics": {"total_prompt_tokens": 90, "total_cost_usd": 0.004},
    "subagent_trajectories": [
        {
            "schema_version": "ATIF-v1.7",
            "trajectory_id": "helper-1",
            "agent": {"name": "Terminus 2", "version": "2.0"},
            "steps": [
                {"step_id": 1, "timestamp": "2026-10-01T10:00:06Z", "source": "user", "message": "Sum up."},
                {"step_id": 2, "source": "agent", "message": "Twelve words."},
            ],
        }
    ],
}
RESULT = {
    "trial_name": "count-words__a1",
    "task_name": "notes/count-words",
    "verifier_result": {"rewards": {"reward": 1.0, "style": 0.5}},
    "exception_info": None,
    "reward_valid": True,
    "finished_at": "2026-10-01T10:01:00Z",
}


def make_trial(place, result=RESULT, trajectory=TRAJECTORY):
    """A trial's folder with logs beside the trajectory, which are no trajectories."""
    agent = place / "count-words__a1" / "agent"
    agent.mkdir(parents=True)
    (agent / "trajectory.json").write_text(json.dumps(trajectory, indent=1))
    (agent / "session.jsonl").write_text('{"type": "log"}\n')
    if result is not None:
        (agent.parent / "result.json").write_text(json.dumps(result))
    return place


def test_a_trial_is_an_episode_with_decisions_steps_token_ids_and_rewards_and_comes_in_once(importing, tmp_path):
    done = importing(make_trial(tmp_path), *FLAGS)
    assert done.code == 0, done.errors
    assert counts() == {"Decision": 3, "Episode": 2, "Step": 3, "Feedback": 2}
    assert Agent.objects.get().slug == "terminus-2"
    main, helper = (Episode.objects.get(external_id=name) for name in ("main-1", "helper-1"))
    assert (main.session, helper.session, main.query) == ("run-1", "run-1", "Count the words in notes.")
    assert (main.tokens_in, main.llm_calls, main.final_response) == (90, 2, "There are 12.")
    first, second = Decision.objects.filter(episode=main).order_by("id")
    assert first.action == [{"name": "bash", "arguments": {"command": "wc -w notes"}, "id": "c1"}]
    assert [one["role"] for one in first.state["messages"]] == ["user", "assistant"]
    assert [one["role"] for one in second.state["messages"]] == ["user", "assistant", "assistant", "tool", "assistant"]
    assert second.state["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "12 notes"}
    assert second.action == "There are 12."
    assert (first.policy_name, first.item_ref, first.tokens_in, first.reasoning) == (
        *("small/model", "notes/count-words", 40),
        "wc does it",
    )
    called, ran = Step.objects.filter(decision_id=first.id).order_by("number")
    assert called.attributes == {
        name: METRICS[name] for name in ("prompt_token_ids", "completion_token_ids", "logprobs")
    }
    assert (ran.kind, ran.name, ran.arguments, ran.result) == (
        "tool_call",
        "bash",
        {"command": "wc -w notes"},
        "12 notes",
    )
    assert Step.objects.get(decision_id=second.id).result == "ok"
    values = dict(Feedback.objects.filter(episode=main, source="code").values_list("metric", "value"))
    assert values == {"reward": 1.0, "style": 0.5}
    before = counts()
    again = importing(tmp_path, *FLAGS)
    assert (again.code, again.report["decisions"], again.report["repeated"]) == (0, 0, 8)
    assert counts() == before


def test_a_verifier_that_failed_leaves_no_reward(importing, tmp_path):
    failed = RESULT | {
        "verifier_result": None,
        "reward_valid": False,
        "exception_info": {"exception_type": "RewardFileNotFoundError"},
    }
    assert importing(make_trial(tmp_path, failed), *FLAGS).code == 0
    assert [*Feedback.objects.values_list("metric", "value")] == [("interrupted", "RewardFileNotFoundError")]


def test_a_step_of_a_task_has_its_own_rewards(importing, tmp_path):
    make_trial(tmp_path, None)
    trial = tmp_path / "count-words__a1"
    (trial / "steps" / "plan").mkdir(parents=True)
    (trial / "agent").rename(trial / "steps" / "plan" / "agent")
    steps = [{"step_name": "plan", "verifier_result": {"rewards": {"reward": 0.25}}}]
    (trial / "result.json").write_text(json.dumps(RESULT | {"step_results": steps}))
    assert importing(tmp_path, *FLAGS).code == 0
    assert [*Feedback.objects.values_list("metric", "value")] == [("reward", 0.25)]


def test_a_result_that_cannot_be_used_is_refused_without_its_trajectory(importing, tmp_path):
    done = importing(make_trial(tmp_path, RESULT | {"verifier_result": {"rewards": {"reward": "NaN"}}}), *FLAGS)
    assert (done.code, done.report["decisions"], done.report["feedback"]) == (1, 3, 0)
    assert "verifier_result.rewards: must be an object of numbers" in done.report["refusals"][0]


def test_every_fault_of_a_trajectory_is_named_and_nothing_of_it_comes_in(importing, tmp_path):
    bad = copy.deepcopy(TRAJECTORY)
    bad["schema_version"] = "ATIF-v2.0"
    bad["steps"][0] |= {"source": "robot", "step_id": 9}
    bad["steps"][2]["observation"]["results"][0]["source_call_id"] = "c7"
    bad["steps"][2]["metrics"] = {"logprobs": ["high"]}
    bad["steps"][3] |= {"source": "user", "reasoning_content": "x"}
    del bad["subagent_trajectories"][0]["trajectory_id"]
    fields = [
        *("schema_version", "steps[0].step_id", "steps[0].source", "steps[2].observation.results[0].source_call_id"),
        *("steps[2].metrics.logprobs", "steps[3].reasoning_content", "subagent_trajectories[0].trajectory_id"),
    ]
    assert [field for field, _ in find_faults(bad)] == fields
    path = tmp_path / "one.json"
    path.write_text(json.dumps(bad))
    done = importing(path, *FLAGS)
    assert (done.code, len(done.report["faults"])) == (2, len(fields))
    assert counts() == {"Decision": 0, "Episode": 0, "Step": 0, "Feedback": 0}
