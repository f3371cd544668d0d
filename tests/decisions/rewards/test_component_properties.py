"""What holds for every component: errors for bad input, values within the range, only declared facts; and code."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.rewards.components import COMPONENTS, ComponentError, Facts, Trace
from decisions.rewards.components.component import describe_range
from decisions.rewards.valuing import raw_range

REPLY = "Done.\n```python\nprint(1)\n```\nand\n~~~py\nprint(\n~~~\nand\n```sh\nls\n```\n"


def said(**measures: Any) -> Facts:
    return Facts(measures=measures, confidence=0.8)


def traced(**fields: Any) -> Facts:
    code = fields.pop("code", None)
    measures = {} if code is None else {"measured.trace.code_execution": {"value": code}}
    return Facts(measures=measures, trace=Trace(**fields))


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("filer.completion", said(completion="LOST")),
        ("filer.rework", said(cycles=-1)),
        ("filer.rework", said(cycles="many")),
        ("filer.time", said(time_ratio=float("nan"))),
        ("filer.blocked", said(blocked="yes")),
        ("filer.alignment", said(alignment=1.5)),
        ("prioritizer.acceptance", said(verdict="liked")),
        ("retriever.hallucination", said(hallucinations=-1)),
        ("storer.edits", said(edit_ratio=2)),
        ("trace.tool_success", traced(tool_ends=1, tool_successes=2)),
        ("trace.task_completion", traced(tasks_created=1, tasks_completed=2)),
        ("trace.syntax", traced(response="```python\n" + "1\n" * 60_000)),
        ("trace.code_execution", Facts(measures={"measured.trace.code_execution": {"error": "no sandbox"}})),
        ("trace.learned", Facts(measures={"measured.trace.learned": {"value": 1.5}})),
    ],
)
def test_what_cannot_be_valued_is_an_error_and_not_a_number(name: str, facts: Facts) -> None:
    with pytest.raises(ComponentError):
        COMPONENTS[name].function(facts, COMPONENTS[name].parameters)


@pytest.mark.parametrize(
    ("name", "facts", "soft", "threshold"),
    [
        ("trace.syntax", traced(response=REPLY), 0.5, 1.0),
        ("trace.efficiency", traced(llm_calls=5, steps=3), 0.65, 0.5),
        ("trace.code_execution", traced(code=0.75), 0.75, 1.0),
        ("trace.format_compliance", traced(response="<b>"), 0.9, 1.0),
    ],
)
def test_a_trace_component_is_soft_or_binary(name: str, facts: Facts, soft: float, threshold: float) -> None:
    component = COMPONENTS[name]
    assert component.parameters["threshold"] == threshold
    assert component.function(facts, component.parameters) == pytest.approx(soft)
    for limit, passed in ((threshold, soft >= threshold), (0.5, True), (0.99, False)):
        given = {**component.parameters, "binary": True, "threshold": limit}
        assert component.function(facts, given) == float(passed)


@pytest.mark.parametrize(
    "code", ["(" * 5_000, "-" * 50_000 + "1", "x" + ".y" * 20_000, "1\0", '"\\d"', "1 is 1", "print 1"]
)
def test_no_block_of_code_breaks_the_parser(code: str) -> None:
    facts = traced(response=f"```python\n{code}\n```")
    assert COMPONENTS["trace.syntax"].function(facts, COMPONENTS["trace.syntax"].parameters) in {0.0, 1.0}


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("1. So:\n    ```python\n    if x:\n        y\n    ```\n", 1.0),  # in a list
        ("````python\n```\n````", 0.0),  # the shorter fence is code
        ("```python\nprint(1)", 1.0),  # never closed
        ("```\nprint(\n```", 0.5),  # of no language
        ("```python x=1\r\nprint(1)\r\n```", 1.0),
        ("`python` and ```python```", 0.5),
    ],
)
def test_blocks_are_found(response: str, value: float) -> None:
    assert COMPONENTS["trace.syntax"].function(traced(response=response), {"nothing": 0.5, "binary": False}) == value


def test_tags_in_code_and_addresses_are_no_tags() -> None:
    text = "See <https://a.b/> or <me@a.b>, 1 < 2 > 0, `<b>`:\n```html\n<p>hi</p>\n```"
    component = COMPONENTS["trace.format_compliance"]
    assert component.function(traced(response=text), component.parameters) == 1.0


# Properties

TEXTS = st.sampled_from(
    [
        "",
        "DONE",
        "COLD_STORAGE",
        "confirmed",
        "corrected",
        "HIGH",
        "a",
        "o1",
        "CONFLICT",
        "Flights. Leave daily!",
        "\ud83d",
    ]
)
NUMBERS = st.one_of(
    st.floats(), st.integers(-3, 3), st.floats(0, 1), st.sampled_from([10**400, -(10**400), 1e308, True, False])
)
ANYTHING = st.recursive(
    st.one_of(st.none(), TEXTS, st.floats(0, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda drawn: odd if drawn == 9 else usual)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects that have some of these fields, mostly with what belongs there; seldom no object at all."""
    optional = {name: mostly(one, ANYTHING) for name, one in fields.items()}
    return mostly(st.fixed_dictionaries({}, optional=optional), ANYTHING)


ITEMS = st.lists(some(id=TEXTS, title=TEXTS, priority=TEXTS, energy=TEXTS, opusId=TEXTS, content=TEXTS), max_size=3)
ACTIONS = some(
    recommended_item_id=TEXTS,
    findings=st.lists(some(type=TEXTS, relatedIds=st.lists(TEXTS, max_size=2)), max_size=2),
    suggestedContent=TEXTS,
    location=TEXTS,
    generatedContent=TEXTS,
    sourceCitations=st.lists(TEXTS | some(opusId=TEXTS, quote=TEXTS), max_size=3),
)
STATES = some(
    todoItems=ITEMS,
    userContext=some(energy=TEXTS, lastItem=some(opusId=TEXTS, swimlane=TEXTS)),
    completedItem=some(title=TEXTS),
    targetSections=ITEMS,
    query=TEXTS,
    relevantOpuses=ITEMS,
)
USUAL = {
    "completion": st.sampled_from(["DONE", "COLD_STORAGE"]),
    "verdict": st.sampled_from(["confirmed", "corrected", "overridden", "ignored"]),
    "cycles": st.integers(0, 60),
    "time_ratio": st.floats(0, 4),
    "hallucinations": st.integers(0, 9),
}
MEASURES = {
    metric: mostly(
        st.fixed_dictionaries({"value": st.floats(0, 1)})
        if metric.startswith("measured.")
        else USUAL.get(metric, st.sampled_from([0, 1, True, False, 0.3])),
        NUMBERS | TEXTS,
    )
    for metric in sorted({metric for component in COMPONENTS.values() for metric in component.metrics})
}
FACTS = st.builds(
    Facts,
    measures=st.fixed_dictionaries({}, optional=MEASURES),
    confidence=st.none() | st.floats(),
    action=ACTIONS,
    answer=ANYTHING,
    state=STATES,
    correction=ACTIONS,
    trace=st.none()
    | st.builds(
        Trace,
        response=TEXTS | st.just(REPLY),
        tasks_created=st.none() | st.integers(-1, 5),
        tasks_completed=st.none() | st.integers(-1, 5),
        tasks_failed=st.none() | st.integers(-1, 5),
        tokens=st.none() | st.integers(-1, 5000),
        llm_calls=st.integers(0, 12),
        tool_calls=st.integers(0, 3),
        tool_ends=st.integers(0, 3),
        tool_successes=st.integers(0, 3),
        steps=st.integers(0, 20),
    ),
)
GROUPS = {"content": ("action", "state"), "correction": ("correction",), "trace": ("trace",)}


def declared(name: str, facts: Facts) -> Facts:
    """Only those facts that the component says it reads."""
    component = COMPONENTS[name]
    fields = {field: getattr(facts, field) for group in component.reads for field in GROUPS.get(group, ())}
    measures = {metric: value for metric, value in facts.measures.items() if metric in component.metrics}
    return Facts(measures=measures, confidence=facts.confidence, answer=facts.answer, **fields)


def outcome(name: str, facts: Facts, parameters: dict[str, Any]) -> float | str | None:
    try:
        return COMPONENTS[name].function(facts, parameters)
    except ComponentError as error:
        return str(error)


@settings(max_examples=150)
@given(facts=FACTS, scale=st.floats(-3, 3))
@pytest.mark.slow
def test_every_value_lies_in_its_range_and_comes_from_declared_facts_alone(facts: Facts, scale: float) -> None:
    for name, component in COMPONENTS.own.items():
        value = outcome(name, facts, dict(component.parameters))
        assert value is None or isinstance(value, str) or component.low <= value <= component.high, name
        if name != "matches_answer":
            assert outcome(name, declared(name, facts), dict(component.parameters)) == value, name
        if "payoff" in component.parameters:
            given = {**component.parameters, "payoff": scale}
            low, high = component.attainable({"payoff": scale})
            value = outcome(name, facts, given)
            assert value is None or isinstance(value, str) or low <= value <= high, name


def test_the_rows_are_sound() -> None:
    for name, component in COMPONENTS.own.items():
        assert component.name == name
        assert math.isfinite(component.low) and math.isfinite(component.high) and component.low < component.high
        assert component.parameter_faults(component.parameters) == []
        if component.bounds is not None and component.scope == "decision":
            assert component.bounds(component.parameters) == pytest.approx((component.low, component.high)), name
    rework = COMPONENTS["filer.rework"]
    assert rework.attainable({"per_cycle": -1.0, "most_cycles": 3.0}) == (-3.0, 0.0)
    assert rework.function(said(cycles=9), {"per_cycle": -1.0, "most_cycles": 3.0}) == -3.0
    for name in ("filer.rework", "retriever.hallucination"):  # a ceiling is the spec's own choice
        assert describe_range(*COMPONENTS[name].attainable()) == "0 or less"
        assert raw_range([{"name": name, "weight": 1.0}], clamp=5.0) == (-5.0, 0.0)
    assert rework.parameter_faults({"per_cycle": "much", "cycles": 1.0, "most_cycles": float("inf")}) == [
        "per_cycle must be a number from -1e+06 to 1e+06",
        "cycles is unknown; known: per_cycle, most_cycles",
        "most_cycles must be a number from -1e+06 to 1e+06",
    ]
