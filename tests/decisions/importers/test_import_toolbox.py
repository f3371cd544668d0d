"""ToolBox traces and checkpoints: everything a trace says, overlap once, and no pickle is ever opened."""

import json
import pickle

import pytest

from decisions.models import Decision, Episode, Feedback, Reward, Step
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.components.defaults import TRACES
from decisions.rewards.specs import current_reward_spec
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "toolbox", "--agent", "isaa", "--create-agents")


def trace(**fields):
    return {
        "trace_id": "0a1b2c3d4e5f",
        "session_id": "s-1",
        "timestamp": "2025-11-02T10:00:00.250000",
        "user_query": "How large is the file?",
        "tool_calls": [
            {
                "tool_name": "file_size",
                "arguments": {"args": [], "kwargs": {"path": "a.txt"}},
                "result": "12",
                "success": True,
                "duration_ms": 4.5,
                "error": None,
                "timestamp": "2025-11-02T10:00:01",
            },
            {"tool_name": "send", "arguments": {}, "result": "", "success": False, "duration_ms": 1, "error": "no net"},
        ],
        "reasoning_steps": [
            {
                "step_type": "internal_reasoning",
                "content": "Ask the disk.",
                "confidence": 0.75,
                "insights": ["it is a file"],
                "issues": [],
            }
        ],
        "tasks_created": [{"task_id": "t1"}, {"task_id": "t2"}],
        "tasks_completed": [{"task_id": "t1", "result": "12"}],
        "tasks_failed": [{"task_id": "t2", "error": "no net"}],
        "final_response": "12 bytes.",
        "total_tokens_in": 120,
        "total_tokens_out": 30,
        "total_cost": 0.0125,
        "execution_duration_ms": 950.0,
        "llm_calls_count": 2,
        "label": True,
        "reward_score": 0.8,
        "manual_review": True,
        "review_notes": "quick",
    } | fields


def history(count):
    """`count` questions with answers, a minute apart, and one question more."""
    said = []
    for number in range(count + 1):
        said.append({"role": "user", "content": f"question {number}", "timestamp": f"2025-11-02T09:{number:02}:00"})
        if number < count:
            said.append({"role": "tool", "content": "looked"})
            said.append({"role": "assistant", "content": f"answer {number}"})
    return said


def checkpoint(sessions, **fields):
    return {"agent_name": "isaa", "session_data": {name: {"history": said} for name, said in sessions.items()}} | fields


def write(tmp_path, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content, indent=2))
    return tmp_path


def test_everything_a_trace_says_is_kept(importing, tmp_path):
    done = importing(write(tmp_path, one=trace()), *FLAGS)
    assert done.code == 0, done.errors
    decision = Decision.objects.get()
    assert (decision.state, decision.action) == ({"query": "How large is the file?"}, "12 bytes.")
    assert (decision.tokens_in, decision.tokens_out, float(decision.cost)) == (120, 30, 0.0125)
    assert (decision.latency_ms, decision.external_id) == (950.0, "0a1b2c3d4e5f")
    episode = Episode.objects.get()
    assert (episode.session, episode.query, episode.final_response) == ("s-1", trace()["user_query"], "12 bytes.")
    assert (episode.tasks_created, episode.tasks_completed, episode.tasks_failed, episode.llm_calls) == (2, 1, 1, 2)
    steps = list(Step.objects.order_by("number"))
    assert [step.kind for step in steps] == ["reasoning", "tool_call", "tool_call", "span", "span", "span", "span"]
    thought, call, failed = steps[:3]
    assert (thought.reasoning_type, thought.content, thought.confidence) == (
        "internal_reasoning",
        "Ask the disk.",
        0.75,
    )
    assert (thought.insights, call.name, call.result, call.success) == (["it is a file"], "file_size", "12", True)
    assert (call.arguments["kwargs"], call.duration_ms) == ({"path": "a.txt"}, 4.5)
    assert call.started_at.isoformat() == "2025-11-02T10:00:01+00:00"
    assert (failed.success, failed.error) == (False, "no net")
    assert [(step.name, step.success) for step in steps[3:]] == [
        ("task created", None),
        ("task created", None),
        ("task completed", True),
        ("task failed", False),
    ]
    fed = {one.metric: (one.value, one.source) for one in Feedback.objects.filter(decision_id=decision.id)}
    assert fed == {
        "label": (True, "human"),
        "verdict": ("confirmed", "human"),
        "reward": (0.8, "code"),
        "review_notes": ("quick", "human"),
    }


def test_a_new_agent_s_traces_have_rewards_that_nobody_has_to_give(importing, tmp_path):
    unlabelled = trace(label=None, reward_score=None, manual_review=False, review_notes="")
    assert importing(write(tmp_path, one=unlabelled), *FLAGS).code == 0
    spec = current_reward_spec(Decision.objects.get().agent)
    assert {line["name"]: line["weight"] for line in spec.components} == dict(TRACES.weights)
    calculate_rewards(spec)
    assert Reward.objects.get(decision=Decision.objects.get()).value is not None


def test_a_trace_without_labels_has_no_feedback(importing, tmp_path):
    unlabelled = trace(label=None, reward_score=None, manual_review=False, review_notes="")
    assert importing(write(tmp_path, one=unlabelled), *FLAGS).code == 0
    assert not Feedback.objects.exists()


@pytest.mark.parametrize(
    ("label", "reviewed", "verdict"),
    [(True, True, "confirmed"), (False, True, "corrected"), (False, False, None), (None, True, None)],
)
def test_a_person_s_label_is_the_verdict_and_a_program_s_is_not(importing, tmp_path, label, reviewed, verdict):
    importing(write(tmp_path, one=trace(label=label, manual_review=reviewed)), *FLAGS)
    found = Feedback.objects.filter(metric="verdict").values_list("value", flat=True)
    assert list(found) == ([] if verdict is None else [verdict])


def test_checkpoints_that_overlap_give_each_pair_once(importing, tmp_path):
    folder = write(
        tmp_path,
        a=checkpoint({"s-1": history(2)}),
        b=checkpoint({"s-1": history(5), "s-2": history(1)}),
        c=checkpoint({"s-1": history(5)[6:], "s-2": history(1)}),  # the oldest fell out of its window
    )
    done = importing(folder, *FLAGS)
    assert (done.code, done.report["decisions"], done.report["repeated"]) == (0, 6, 2 + 3 + 1)
    told = sorted((decision.episode.session, decision.action) for decision in Decision.objects.all())
    assert told == [("s-1", f"answer {n}") for n in range(5)] + [("s-2", "answer 0")]
    before = counts()
    assert importing(folder, *FLAGS).report["decisions"] == 0
    assert counts() == before


def test_a_later_checkpoint_alone_adds_what_is_new(importing, tmp_path):
    importing(write(tmp_path, a=checkpoint({"s-1": history(2)})), *FLAGS)
    done = importing(write(tmp_path, a=checkpoint({"s-1": history(5)})), *FLAGS)
    assert (done.report["decisions"], done.report["repeated"]) == (3, 2)


def test_the_same_words_twice_in_one_session_are_two(importing, tmp_path):
    said = [{"role": "user", "content": "yes"}, {"role": "assistant", "content": "ok"}] * 2
    folder = write(tmp_path, a=checkpoint({"s": said}), b=checkpoint({"s": said + said[:2]}))
    done = importing(folder, *FLAGS, "--observed-at", "2025-11-02T00:00:00Z")
    assert (done.report["decisions"], done.report["repeated"]) == (3, 2)


def test_what_a_trace_and_a_checkpoint_both_hold_is_taken_from_the_trace(importing, tmp_path):
    said = [
        {"role": "user", "content": "How large is the file?", "timestamp": "2025-11-02T10:00:00.260000"},
        {"role": "assistant", "content": "12 bytes."},
        {"role": "user", "content": "Thanks", "timestamp": "2025-11-02T10:01:00"},
        {"role": "assistant", "content": "Welcome."},
    ]
    done = importing(write(tmp_path, a=checkpoint({"s-1": said}), z=trace()), *FLAGS)
    assert (done.code, done.report["decisions"], done.report["repeated"]) == (0, 2, 1)
    assert Decision.objects.get(action="12 bytes.").tokens_in == 120


class Boom:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_is_refused_and_never_opened(importing, tmp_path):
    trap = tmp_path / "opened"
    (tmp_path / "state.pkl").write_bytes(pickle.dumps(Boom(trap)))
    (tmp_path / "state.json").write_bytes(pickle.dumps(Boom(trap)))
    write(tmp_path, one=trace())
    done = importing(tmp_path, *FLAGS)
    assert done.code == 1
    assert "state.pkl:1: is a pickle" in done.errors
    assert "state.json:1: " in done.errors
    assert not trap.exists()
    assert Decision.objects.count() == 1
    assert importing(tmp_path / "state.pkl", *FLAGS).code == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (trace(final_response=None), "final_response: is missing or not text"),
        (trace(label="yes"), "label: is neither true, false nor null"),
        (trace(tool_calls={}), "tool_calls: is not a list"),
        (trace(timestamp=""), "timestamp: the record has no time"),
        (trace(reasoning_steps=[{"confidence": 7}]), "confidence: "),
        (checkpoint({}, session_data=[1]), "session_data: is not an object"),
        (checkpoint({}, session_data={"s": {"history": "gone"}}), "session_data.s.history: is not a list"),
        ({"other": 1}, "user_query: is missing"),
    ],
)
def test_what_is_not_usable_is_named(importing, tmp_path, bad, reason):
    done = importing(write(tmp_path, bad=bad, good=trace(trace_id="good")), *FLAGS)
    assert done.code == 1
    assert [one.startswith(f"{tmp_path / 'bad.json'}:1: {reason}") for one in done.report["refusals"]] == [True]
    assert Decision.objects.get().external_id == "good"
