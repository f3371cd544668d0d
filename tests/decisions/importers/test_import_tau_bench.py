"""tau-bench results come in whole: every message, tool call and reward of 200 real runs, and of a small one."""

import json
from collections import Counter
from pathlib import Path

import pytest

from decisions.models import Agent, Decision, Episode, Feedback, Reward, RewardSpec, Step
from decisions.rewards.calculate import Calculated, calculate_rewards
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "tau_bench" / "gpt-4o-airline.json"
FLAGS = ("--format", "tau-bench", "--agent", "airline", "--observed-at", "2024-06-20T00:00:00Z")


def call(name, arguments, number):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def run(reward=1.0, task=3, trial=0):
    """A person asks for a refund; the agent looks the order up, says so, and the person ends it."""
    return {
        "task_id": task,
        "trial": trial,
        "reward": reward,
        "info": {
            "task": {"user_id": "mia_1", "actions": [], "instruction": "Ask for a refund.", "outputs": []},
            "source": "user",
            "user_cost": 0.25,
            "reward_info": {"reward": reward, "info": {"r_actions": reward, "gt_data_hash": "x"}, "actions": []},
        },
        "traj": [
            {"role": "system", "content": "You work in a shop."},
            {"role": "user", "content": "I want my money back for A-1."},
            {"role": "assistant", "content": None, "tool_calls": [call("find_order", {"order": "A-1"}, 1)]},
            {"role": "tool", "tool_call_id": "call_1", "name": "find_order", "content": "Error: no such order"},
            {"role": "assistant", "content": "There is no order A-1."},
            {"role": "user", "content": "###STOP###"},
        ],
    }


def messages_of(episode):
    """What the run said, put together again from what was stored."""
    decisions = list(Decision.objects.filter(episode=episode).order_by("id"))
    last = decisions[-1]
    said = [as_stored(message) for message in last.state["messages"]]
    calls = last.action if isinstance(last.action, list) else []
    own = {"role": "assistant", "content": last.completion}
    if calls:
        own["tool_calls"] = [(one["id"], one["name"], one["arguments"]) for one in calls]
    said.append(own)
    for step in Step.objects.filter(decision_id=last.id).order_by("number"):
        if step.kind == "tool_call":
            said.append({"role": "tool", "tool_call_id": step.external_id, "name": step.name, "content": step.result})
        else:
            said.append({"role": step.name, "content": step.result})
    return said


def as_stored(message):
    if not message.get("tool_calls"):
        return message
    calls = [
        (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])) for one in message["tool_calls"]
    ]
    return {"role": "assistant", "content": message["content"], "tool_calls": calls}


def test_a_run_is_an_episode_with_a_decision_for_each_message_of_the_assistant(importing, tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([run()], indent=2))
    done = importing(path, *FLAGS, "--create-agents")
    assert done.code == 0, done.errors
    assert counts() == {"Decision": 2, "Episode": 1, "Step": 2, "Feedback": 3}
    first, second = Decision.objects.order_by("id")
    assert first.action == [{"name": "find_order", "arguments": {"order": "A-1"}, "id": "call_1"}]
    assert (second.action, second.completion) == ("There is no order A-1.", "There is no order A-1.")
    assert [first.step_number, second.step_number, first.unit] == [0, 1, "mia_1"]
    assert first.state["messages"] == run()["traj"][:2]
    tool, word = Step.objects.order_by("decision_id", "number")
    assert (tool.decision_id, tool.kind, tool.name, tool.success) == (first.id, "tool_call", "find_order", False)
    assert tool.arguments == {"order": "A-1"}
    assert (word.decision_id, word.kind, word.result) == (second.id, "span", "###STOP###")
    episode = Episode.objects.get()
    values = dict(Feedback.objects.filter(episode=episode).values_list("metric", "value"))
    assert values == {"reward": 1.0, "r_actions": 1.0, "user_cost": 0.25}
    assert Agent.objects.get(slug="airline").versions.get().action_space == "tool_calls"


def test_the_same_task_by_two_models_is_two_episodes(importing, tmp_path):
    other = run(reward=0.0)
    other["traj"][4]["content"] = "Done, the money is on its way."
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([run(), other]))
    assert importing(path, *FLAGS, "--create-agents").code == 0
    assert sorted(Feedback.objects.filter(metric="reward").values_list("value", flat=True)) == [0.0, 1.0]
    assert Episode.objects.count() == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"reward": None}, "reward"),
        ({"traj": []}, "traj"),
        ({"traj": [{"role": "robot", "content": "x"}]}, "traj[0].role"),
        ({"traj": [{"role": "assistant", "tool_calls": [{"function": None}]}]}, "traj[0].tool_calls[0].function"),
    ],
)
def test_a_run_that_is_not_usable_is_refused_whole_and_the_next_one_is_in(importing, tmp_path, change, field):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([run() | change, run()], indent=1))
    done = importing(path, *FLAGS, "--create-agents")
    assert done.code == 1
    assert done.report["refusals"] == [refusal for refusal in done.report["refusals"] if f":2: {field}:" in refusal]
    assert len(done.report["refusals"]) == 1
    assert counts() == {"Decision": 2, "Episode": 1, "Step": 2, "Feedback": 3}


def test_without_a_time_nothing_is_written(importing, tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([run()]))
    done = importing(path, "--format", "tau-bench", "--agent", "airline", "--create-agents")
    assert done.code == 2
    assert "--observed-at" in done.errors
    assert counts() == {"Decision": 0, "Episode": 0, "Step": 0, "Feedback": 0}
    assert not Agent.objects.exists()


@pytest.mark.slow
@pytest.mark.skipif(not REAL.exists(), reason=f"{REAL.name} is not on this machine")
def test_200_real_runs_come_in_whole_and_once(importing):
    runs = json.loads(REAL.read_text())
    done = importing(REAL, *FLAGS, "--create-agents")
    assert (done.code, done.report["refused"], done.report["repeated"]) == (0, 0, 0), done.errors
    said = [message for one in runs for message in one["traj"]]
    assert Episode.objects.count() == len(runs) == 200
    assert Decision.objects.count() == sum(message["role"] == "assistant" for message in said)
    assert Step.objects.filter(kind="tool_call").count() == sum(message["role"] == "tool" for message in said)
    # Every message is there, word for word and in order.
    stored = Counter(json.dumps(messages_of(episode), sort_keys=True) for episode in Episode.objects.all())
    wanted = Counter(json.dumps([as_stored(message) for message in one["traj"]], sort_keys=True) for one in runs)
    assert stored == wanted
    rewards = Feedback.objects.filter(metric="reward")
    assert Counter(rewards.values_list("value", flat=True)) == Counter(one["reward"] for one in runs)
    named = {episode.external_id.rsplit("-", 1)[0]: episode.id for episode in Episode.objects.all()}
    by_episode = dict(rewards.values_list("episode_id", "value"))
    for one in runs:
        assert by_episode[named[f"task-{one['task_id']}-trial-{one['trial']}"]] == one["reward"]
    # The run's reward reaches each of its decisions, discounted by how many come after it.
    agent = Agent.objects.get()
    spec = RewardSpec.objects.create(
        agent=agent,
        workspace=agent.workspace,
        number=2,
        components=[{"name": "episode.outcome", "weight": 1.0, "parameters": {}}],
        credit="return_to_go",
        discount=0.9,
        spec_hash="0" * 64,
    )
    assert calculate_rewards(spec) == Calculated(Decision.objects.count(), 0)
    raw = dict(Reward.objects.filter(spec=spec).values_list("decision_id", "raw"))
    for episode in Episode.objects.prefetch_related("decisions"):
        ordered = sorted(
            episode.decisions.all(), key=lambda decision: (decision.step_number, decision.id), reverse=True
        )
        expected = [by_episode[episode.id] * 0.9**left for left in range(len(ordered))]
        assert [raw[decision.id] for decision in ordered] == pytest.approx(expected)
    before = counts()
    again = importing(REAL, *FLAGS)
    assert (again.code, again.report["decisions"], again.report["steps"], again.report["feedback"]) == (0, 0, 0, 0)
    assert counts() == before
