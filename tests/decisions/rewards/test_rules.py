"""Rules: components as one line of text. What they compute, what they refuse and where, and what attacks meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.errors import InvalidRewardSpec
from decisions.models import Agent, Reward
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.components import ComponentError, Facts, Trace
from decisions.rewards.components.rules import InvalidRule, compile_rule, rule_component
from decisions.rewards.specs import ComponentSetup, RuleSetup, SpecContent, create_reward_spec
from tools.factories import DecisionFactory, FeedbackFactory
from workspaces.access.actors import Actor

FACTS = Facts(
    measures={"latency_ms": 150, "code-quality": 0.5, "verdict": "confirmed", "blocked": True, "huge": 10**400},
    confidence=0.75,
    age=172_800.0,
    action={"status": "TODO", "labels": ["home", "urgent"], "findings": [{"type": "CONFLICT"}], "n": 2},
    state={"item": {"title": "Book flights"}},
    correction="words",
    tokens_out=20,
    trace=Trace(tool_calls=4, tool_successes=3, measures={"reward": 0.25}),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 if measures.latency_ms < 200 else -0.5", 1.0),
        ('1 - measures["code-quality"] * 2 / 4', 0.75),
        ("-min(1, confidence, usage.tokens_out)", -0.75),
        ("max(trace.tool_successes, 1) / trace.tool_calls", 0.75),
        ('verdict == "confirmed" and "urgent" in action.labels', 1.0),
        ('action.status in ("TODO", "ON_HOLD") and not measures.blocked', 0.0),
        ('action.status not in ["TRASH"] or len(action.labels) > 9', 1.0),
        ('action.findings[0].type != "CONFLICT"', 0.0),
        ('"flights" in state.item.title', 1.0),
        ("abs(-age_days)", 2.0),
        ("trace.measures.reward * 2", 0.5),
        ('action == "ALLOW"', 0.0),
        ('correction == "words"', 1.0),
        ("  measures.blocked - 0.5\n", 0.5),
        ("None", None),
        ("measures.nobody", None),
        ("measures.nobody > 1 or measures.blocked", None),
        ("measures.blocked or measures.nobody > 1", 1.0),
        ("1 if measures.nobody is None else 2", 1.0),
        ("1 if action.labels is not None else 2", 1.0),
        ("default(measures.nobody, 2) + default(usage.cost * 2, 1)", 3.0),
        ("action.labels[7]", None),
        ("action.status.deeper", None),
    ],
)
def test_values(text: str, value: float | None) -> None:
    assert compile_rule(text, -10, 10)(FACTS, {}) == value


def test_without_a_trace_its_fields_are_unknown() -> None:
    assert compile_rule("trace.steps + 1", -10, 10)(Facts(), {}) is None


@pytest.mark.parametrize(
    "text",
    ["action.status + 1", "1 / (confidence - 0.75)", "11", "measures.huge", "len(action.n)", "1 in action.n", "verdict",
     "1 if confidence else 0", "1e15 * 1e15 * 1e300 / 1e15 - 1e300 * 1e15 * 1e15"],
)  # fmt: skip
def test_what_cannot_be_valued_is_an_error(text: str) -> None:
    with pytest.raises((ComponentError, InvalidRule)):
        compile_rule(text, -10, 10)(FACTS, {})


@pytest.mark.parametrize(
    ("text", "column", "fault"),
    [
        ("measures.__class__", 1, "'__class__' is no field"),
        ("1 + action.__init__.__globals__", 5, "is no field"),
        ('measures["__class__"]', 1, "is no field"),
        ("().__class__", 1, "is no field"),
        ("().real", 1, "is no fact"),
        ("__import__('os').system('id')", 1, "is not allowed"),
        ("1 + open('/etc/passwd')", 5, "is not allowed"),
        ("min(1, *action.labels)", 1, "is not allowed"),
        ("default(measures.a, default=2)", 1, "is not allowed"),
        ("[x for x in action.labels]", 1, "is not allowed"),
        ("sum(1 for x in state.a for y in state.a)", 1, "is not allowed"),
        ("1 in [x for x in state.a]", 6, "is not allowed"),
        ("9**9**9", 1, "is not allowed"),
        ("1 << 99999", 1, "is not allowed"),
        ("(lambda: 1)()", 1, "is not allowed"),
        ("lambda: " + "-" * 900 + "1", 1, ""),
        ("(x := 5)", 2, "is not allowed"),
        ("f'{confidence}'", 1, "is not allowed"),
        ("'a' * 2 + " + "'" + "x" * 300 + "'", 11, "a text has 300 characters"),
        ("1 + " * 600 + "1", 2001, "the rule has 2401 characters"),
        ("1 + " * 100 + "1", 1, "the rule is too long"),
        ("min(" + "1, " * 250 + "1)", 0, "the rule is too long"),
        ("not " * 100 + "True", 0, "the rule is too long"),
        ("(" * 500 + "1" + ")" * 500, 0, ""),
        ("action" + ".a" * 900 + "()", 1, "is not allowed"),
        ("1e400", 1, "this value is not allowed"),
        ("9" * 1000, 1, "this value is not allowed"),
        ("1j", 1, "this value is not allowed"),
        ("b'x'", 1, "this value is not allowed"),
        ("confidence > 'é' and os", 22, "'os' is no fact"),
        ("0 < confidence < 1", 1, "several comparisons"),
        ("confidence is 1", 15, "`is` compares with None"),
        ("confidence +", 13, "invalid syntax"),
        ("1\nif True else 2", 2, "several lines"),
        ("", 1, ""),
        ("measures", 1, "'measures' is no fact"),
        ("trace.cost", 1, "trace has no 'cost'"),
        ("usage.tokens", 1, "usage has no 'tokens'"),
        ("action[confidence]", 1, "is no fact"),
        ("action.labels[True]", 1, "True is no field"),
        ("abs(1, 2)", 1, "abs has 2 arguments"),
    ],
)
def test_what_is_no_rule_is_refused_at_its_place(text: str, column: int, fault: str) -> None:
    with pytest.raises(InvalidRule) as refusal:
        compile_rule(text, -1, 1)
    assert fault in refusal.value.fault and refusal.value.wanted
    assert column in (0, refusal.value.column), refusal.value


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (float("-inf"), 1), (0, float("nan"))])
def test_a_rule_has_a_finite_range(low: float, high: float) -> None:
    with pytest.raises(InvalidRule):
        compile_rule("1", low, high)


def test_a_rule_says_what_it_reads() -> None:
    component = rule_component("rule.quick", "usage.latency_ms < 5 and trace.steps < 3 and verdict == measures.x", 0, 1)
    assert component.metrics == ("verdict", "x")
    assert component.reads == {"usage", "trace"}
    assert (component.low, component.high, component.horizon) == (0, 1, "immediate")


@pytest.mark.django_db
class TestInASpec:
    def test_a_rule_rewards_decisions(self, agent: Agent, by: Actor) -> None:
        quick = RuleSetup("1 if usage.latency_ms < 200 else -0.5", -0.5, 1)
        clicks = RuleSetup("measures.clicks / 10", 0, 1)
        setups = [ComponentSetup("rule.quick", 2.0, rule=quick), ComponentSetup("rule.clicks", rule=clicks)]
        spec = create_reward_spec(by=by, agent=agent, content=SpecContent(setups))
        fast, slow = (DecisionFactory(agent=agent, latency_ms=ms) for ms in (150, 250))
        FeedbackFactory(decision=slow, metric="clicks", value=99)
        assert calculate_rewards(spec).errors == 1
        rewards = {reward.decision_id: reward for reward in Reward.objects.filter(spec=spec)}
        assert rewards[fast.id].components == {"rule.quick": {"value": 1.0}} and rewards[fast.id].value == 1.0
        assert rewards[slow.id].value is None
        assert rewards[slow.id].components == {
            "rule.quick": {"value": -0.5},
            "rule.clicks": {"error": "the rule gives 9.9, outside 0 to 1"},
        }

    @pytest.mark.parametrize(
        ("setup", "field"),
        [
            (ComponentSetup("rule.a", rule=RuleSetup("9 ** 9", 0, 1)), "components[0].rule"),
            (ComponentSetup("rule.a", rule=RuleSetup("1", 1, 0)), "components[0].rule"),
            (ComponentSetup("verdict", rule=RuleSetup("1", 0, 1)), "components[0].name"),
            (ComponentSetup("rule.a"), "components[0].name"),
            (ComponentSetup("rule.a", parameters={"x": 1}, rule=RuleSetup("1", 0, 1)), "components[0].parameters.x"),
        ],
    )
    def test_what_is_no_rule_is_refused(self, agent: Agent, by: Actor, setup: ComponentSetup, field: str) -> None:
        with pytest.raises(InvalidRewardSpec) as refused:
            create_reward_spec(by=by, agent=agent, content=SpecContent([setup]))
        assert [fault.field for fault in refused.value.faults] == [field]
        assert agent.reward_specs.count() == 1


LEAVES = [
    "1", "0.5", "True", "None", "'a'", "confidence", "verdict", "measures.a", "usage.cost", "action.labels", "action.n",
    "state.item.title", "trace.tool_calls", "trace.__class__", "nobody",
]  # fmt: skip
OPERATORS = st.sampled_from(["+", "-", "*", "/", "**", "<", "==", "in", "is", "and", "or"])
RULES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.builds("({} {} {})".format, inner, OPERATORS, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("default({}, {})".format, inner, inner)
        | st.builds("not {}".format, inner)
        | st.builds("-{}".format, inner)
        | st.builds("max({}, {})".format, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(RULES, st.sampled_from([None, 0, 1, -7, 0.5, True, "x", [1], float("nan"), float("inf"), 1e308]))
def test_any_text_is_refused_or_gives_a_number_within_the_range(text: str, measure: Any) -> None:
    try:
        rule = compile_rule(text, -1, 1)
    except InvalidRule:
        return
    for facts in (Facts(measures={"a": measure}), FACTS):
        try:
            value = rule(facts, {})
        except ComponentError:
            continue
        assert value is None or -1 <= value <= 1
