"""Events as Personalizer logs them: the action shown, its probability, the others' and the reward."""

import copy

import pytest

from decisions.models import Decision, Feedback
from tests.decisions.importers.conftest import counts

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "dsjson", "--agent", "news", "--create-agents")


def event(**fields):
    """The second of three articles was shown, with probability 0.8, and clicked."""
    return {
        "_label_cost": -1,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "o": [{"v": 1.0, "EventId": "e-1", "ActionTaken": False}],
        "Timestamp": "2023-08-13T20:40:28.7880000Z",
        "Version": "1",
        "EventId": "e-1",
        "a": [2, 1, 3],
        "c": {
            "GUser": {"tier": "pro"},
            "_multi": [
                {"_tag": "weather", "TAction": {"topic": "rain"}},
                {"i": {"constant": 1, "id": "sports"}, "TAction": {"topic": "tennis"}},
                {"TAction": {"topic": "music"}},
            ],
        },
        "p": [0.8, 0.15, 0.05],
        "VWState": {"m": "model-7"},
    } | fields


def test_an_event_is_a_decision_with_its_propensity_and_reward(importing, lines):
    done = importing(lines(event(), name="log.dsjson"), *FLAGS)
    assert done.code == 0, done.errors
    decision = Decision.objects.get()
    assert (decision.action, decision.options, decision.propensity) == ("sports", ["weather", "sports", "3"], 0.8)
    assert decision.alternatives == [{"action": "weather", "probability": 0.15}, {"action": "3", "probability": 0.05}]
    assert decision.state["context"] == {"GUser": {"tier": "pro"}}
    assert decision.state["actions"]["sports"] == {"i": {"constant": 1, "id": "sports"}, "TAction": {"topic": "tennis"}}
    assert (decision.policy_name, decision.external_id) == ("model-7", "e-1")
    assert decision.observed_at.isoformat() == "2023-08-13T20:40:28.788000+00:00"
    feedback = Feedback.objects.get()
    assert (feedback.decision_id, feedback.metric, feedback.value) == (decision.id, "reward", 1)


def test_probabilities_follow_the_order_of_a_and_not_of_the_actions(importing, lines):
    importing(lines(event(a=[2, 3, 1])), *FLAGS)
    told = {item["action"]: item["probability"] for item in Decision.objects.get().alternatives}
    assert told == {"3": 0.15, "weather": 0.05}


@pytest.mark.parametrize(
    "missing", [("a", "p"), ("_labelIndex",), ("_label_Action", "_labelIndex"), ("_label_probability",)]
)
def test_whatever_says_it_is_enough(importing, lines, missing):
    given = {name: value for name, value in event().items() if name not in missing}
    assert importing(lines(given), *FLAGS).code == 0
    decision = Decision.objects.get()
    assert (decision.action, decision.propensity) == ("sports", 0.8)


def test_an_event_that_was_not_activated_has_no_reward(importing, lines):
    importing(lines(event(_skipLearn=True)), *FLAGS)
    assert counts() == {"Decision": 1, "Episode": 0, "Step": 0, "Feedback": 0}


def test_the_reward_that_came_later_is_added_to_the_same_decision(importing, lines):
    importing(lines(event(_label_cost=0, o=[])), *FLAGS)
    done = importing(lines(event()), *FLAGS)
    assert (done.code, done.report["decisions"], done.report["feedback"]) == (0, 0, 1)
    assert sorted(Feedback.objects.values_list("value", flat=True)) == [0, 1]


def wrong(path, value):
    changed = copy.deepcopy(event())
    target = changed
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (wrong(["_labelIndex"], 0), "_labelIndex: _labelIndex, _label_Action, a name different actions"),
        (wrong(["p"], [0.5, 0.3, 0.2]), "p: gives 0.5 to the shown action, but _label_probability is 0.8"),
        (wrong(["p"], [0.8, 0.1, 0.9]), "p: is not a distribution"),
        (wrong(["a"], [2, 1]), "a: does not name one action for each probability"),
        (event(a=[4, 1, 2], _labelIndex=3, _label_Action=4), "_labelIndex: names none of the 3 actions"),
        (event(a=None, p=None, _label_probability=0), "_label_probability: 0.0 must be above 0, up to 1"),
        (wrong(["_label_cost"], "high"), "_label_cost: is not a number"),
        (wrong(["c", "_multi"], []), "c._multi: lists no actions"),
        (wrong(["c", "_slots"], [{}]), "_slots: an event with several slots"),
        ({"RewardValue": 1.0, "EventId": "e-1"}, "RewardValue: a reward without its event"),
        ({"_label_cost": 1}, "c: is not an object"),
        (wrong(["Timestamp"], "then"), "Timestamp: 'then' is not an ISO 8601 time"),
    ],
)
def test_an_event_that_contradicts_itself_is_refused(importing, lines, given, reason):
    path = lines(given, event(EventId="e-2"))
    done = importing(path, *FLAGS)
    assert done.code == 1
    assert [one.startswith(f"{path}:1: {reason}") for one in done.report["refusals"]] == [True], done.report
    assert Decision.objects.get().external_id == "e-2"


def test_a_probability_of_32_bits_a_rounding_error_above_1_is_1(importing, lines):
    reported = (
        '{"_label_cost": -1, "_label_probability": 1.0000001192092896, "_label_Action": 1, "_labelIndex": 0,'
        ' "Timestamp": "2023-08-13T20:40:28Z", "EventId": "a", "a": [1, 2],'
        ' "c": {"_multi": [{"_tag": "w"}, {"_tag": "s"}]}, "p": [1.0000001192092896, 0.0]}'
    )
    done = importing(lines(reported, event(_label_probability=None, p=[1.0000001, 0, 0])), *FLAGS)
    assert done.code == 0, done.errors
    assert list(Decision.objects.values_list("propensity", flat=True)) == [1.0, 1.0]


@pytest.mark.parametrize("missing", [(), ("_labelIndex",), ("_label_Action",), ("a", "p", "_labelIndex")])
def test_actions_may_be_counted_from_0(importing, lines, missing):
    counted = event(a=[0, 2, 1], _labelIndex=0, _label_Action=0)
    assert importing(lines({name: value for name, value in counted.items() if name not in missing}), *FLAGS).code == 0
    decision = Decision.objects.get()
    assert (decision.action, decision.propensity) == ("weather", 0.8)
    if "p" not in missing:
        told = {item["action"]: item["probability"] for item in decision.alternatives}
        assert told == {"3": 0.15, "sports": 0.05}


def test_events_that_were_sampled_alike_are_read_and_others_are_refused(importing, lines):
    sampled = [event(EventId=f"e-{number}", pdrop=drop) for number, drop in enumerate((0.5, 0.5, 0.9, 1, "x"))]
    path = lines(*sampled)
    done = importing(path, *FLAGS)
    assert (done.report["decisions"], done.report["refused"]) == (2, 3)
    assert done.report["refusals"] == [
        f"{path}:3: pdrop: is 0.9, but 0.5 in the first event: events have no weights here",
        f"{path}:4: pdrop: 1 must be from 0 to below 1",
        f"{path}:5: pdrop: 'x' must be from 0 to below 1",
    ]
