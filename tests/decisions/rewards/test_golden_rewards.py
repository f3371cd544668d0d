"""What each kind of decision is worth, case by case: the values of its components, their weighted sum, the reward.

The numbers are worked out by hand from the tables of docs/rewards.md. The cases of a kind use the kind's default spec.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from decisions.rewards.components import COMPONENTS, Facts, Trace
from decisions.rewards.components.defaults import PRESETS, TRACES, Preset
from decisions.rewards.valuing import share_weights


class Case(NamedTuple):
    name: str
    facts: Facts
    values: dict[str, float]
    raw: float
    reward: float


def kind(name: str, *cases: Case) -> list[Any]:
    preset = TRACES if name == "TRACES" else PRESETS[name]
    return [pytest.param(preset, case, id=f"{name}-{case.name}") for case in cases]


def values_of(preset: Preset, facts: Facts) -> dict[str, float]:
    found = {name: COMPONENTS[name].function(facts, COMPONENTS[name].parameters) for name in preset.weights}
    return {name: value for name, value in found.items() if value is not None}


def said(**measures: Any) -> Facts:
    return Facts(measures=measures, confidence=0.8)


FILER = kind(
    "FILER",
    Case("unknown", said(), {}, 0.0, 0.5),
    Case("confirmed", said(verdict="confirmed"), {"verdict": 1.0, "calibration": -0.2}, 0.98, 0.745),
    Case("corrected", said(verdict="corrected"), {"verdict": -0.5, "calibration": -0.8}, -0.58, 0.355),
    Case("overridden", said(verdict="overridden"), {"verdict": -0.8, "calibration": -0.8}, -0.88, 0.28),
    Case("ignored", said(verdict="ignored"), {"verdict": 0.0}, 0.0, 0.5),
    Case(
        "confirmed and done well",
        said(verdict="confirmed", completion="DONE", cycles=0, time_ratio=0.9, blocked=False, alignment=1.0),
        {
            "verdict": 1.0,
            "calibration": -0.2,
            "filer.completion": 1.0,
            "filer.blocked": 0.0,
            "filer.rework": 0.0,
            "filer.time": 0.5,
            "filer.alignment": 0.5,
            "filer.opportunity_cost": 0.0,
        },
        1.83,  # 1 − .02 + .5 + .15 + .2
        0.9575,
    ),
    Case(
        "done late, after rework and blocked",
        said(completion="DONE", cycles=3, time_ratio=2.5, blocked=True, alignment=0.4),
        {
            "filer.completion": 0.5,
            "filer.blocked": -1.0,
            "filer.rework": -0.6,
            "filer.time": -0.5,
            "filer.alignment": 0.2,
            "filer.opportunity_cost": -1.0,
        },
        -0.44,  # .25 − .3 − .12 − .15 + .08 − .2
        0.39,
    ),
    Case("opened forty times", said(cycles=40), {"filer.rework": -8.0}, -1.6, 0.1),
    Case(
        "put away",
        said(completion="COLD_STORAGE", time_ratio=0.3),
        {"filer.completion": -0.3, "filer.time": 0.0, "filer.opportunity_cost": -0.3},
        -0.21,
        0.4475,
    ),
    Case(
        "the limits of time are not passed",
        said(completion="DONE", time_ratio=1.2),
        {"filer.completion": 1.0, "filer.time": 0.0, "filer.opportunity_cost": -0.2},
        0.46,
        0.615,
    ),
    Case("twice the time is not slow", said(time_ratio=2), {"filer.time": 0.0}, 0.0, 0.5),
    Case(
        "the app knows the cost",
        said(completion="DONE", opportunity_cost=0.25),
        {"filer.completion": 1.0, "filer.opportunity_cost": -0.25},
        0.45,
        0.6125,
    ),
)


def found(*findings: tuple[str, list[str]]) -> dict[str, Any]:
    return {"findings": [{"type": one, "relatedIds": ids} for one, ids in findings]}


def librarian(*values: float) -> dict[str, float]:
    names = ("conflict_prevented", "false_positive", "missed_issue", "dependency")
    return {f"librarian.{name}": value for name, value in zip(names, values, strict=True)}


LIBRARIAN = kind(
    "LIBRARIAN",
    Case("unknown", Facts(action=found(("CONFLICT", ["a"]))), {}, 0.0, 0.5),
    Case(
        "the app says all",
        said(conflict_prevented=True, false_positive=True, missed_issue=True, dependency_found=True),
        librarian(1.0, -0.5, -1.0, 0.5),
        0.0,  # 2 − .25 − 2 + .25
        0.5,
    ),
    Case(
        "confirmed",
        Facts(measures={"verdict": "confirmed"}, action=found(("CONFLICT", ["a"]), ("DEPENDENCY", ["b"]))),
        {"verdict": 1.0} | librarian(1.0, 0.0, 0.0, 0.5),
        3.25,
        1.0,
    ),
    Case(
        "corrected",
        Facts(
            measures={"verdict": "corrected"},
            action=found(("CONFLICT", ["a"]), ("RELATED", ["c"])),
            correction=found(("RELATED", ["c", "d"]), ("DEPENDENCY", ["b"])),
        ),
        {"verdict": -0.5} | librarian(0.0, -0.5, -1.0, 0.0),
        -2.75,
        0.0,
    ),
    Case(
        "nothing found and nothing there",
        Facts(measures={"verdict": "confirmed"}, action=found()),
        {"verdict": 1.0} | librarian(0.0, 0.0, 0.0, 0.0),
        1.0,
        0.75,
    ),
    Case(
        "what the app learned later outranks the verdict",
        Facts(measures={"verdict": "confirmed", "missed_issue": True}, action=found()),
        {"verdict": 1.0} | librarian(0.0, 0.0, -1.0, 0.0),
        -1.0,
        0.25,
    ),
)

OPEN = {
    "todoItems": [
        {"id": "a", "title": "Book the Lisbon flights", "priority": "LOW", "energy": "HIGH", "opusId": "o1"},
        {"id": "b", "title": "Pay rent", "priority": "HIGH", "energy": 0.25, "swimlane": "HOME"},
        {"id": "c", "title": "Read"},
    ],
    "userContext": {
        "goals": ["Travel to Lisbon"],
        "energy": "LOW",
        "lastItem": {"id": "x", "opusId": "o1", "swimlane": "HOME"},
    },
}


def recommends(item: str, **measures: Any) -> Facts:
    return Facts(measures=measures, state=OPEN, action={"recommended_item_id": item})


def prioritizer(**values: float) -> dict[str, float]:
    return {f"prioritizer.{name}": value for name, value in values.items()}


PRIORITIZER = kind(
    "PRIORITIZER",
    Case("confirmed", said(verdict="confirmed"), prioritizer(acceptance=1.0), 1.0, 0.75),
    Case("corrected", said(verdict="corrected"), prioritizer(acceptance=-0.5), -0.5, 0.375),
    Case("overridden", said(verdict="overridden"), prioritizer(acceptance=-0.8), -0.8, 0.3),
    Case("ignored", said(verdict="ignored"), prioritizer(acceptance=0.0), 0.0, 0.5),
    Case(
        "the app says all",
        said(
            verdict="confirmed",
            completed=True,
            on_time=True,
            strategic_fit=1,
            opportunity_cost=1,
            energy_match=0.5,
            flow=1.0,
        ),
        prioritizer(
            acceptance=1.0, completion=1.0, time=0.5, strategic_fit=0.3, opportunity_cost=-0.2, energy=0.1, flow=0.2
        ),
        2.49,  # 1 + 1 + .25 + .24 − .06 + .02 + .04
        1.0,
    ),
    Case(
        "an unimportant item, from the state alone",
        recommends("a"),
        # One of book, lisbon, flights is a word of the context; HIGH was left; HIGH energy for LOW; the same project.
        prioritizer(strategic_fit=0.1, opportunity_cost=-0.2, energy=0.0, flow=0.2),
        0.06,  # .08 − .06 + .04
        0.515,
    ),
    Case(
        "the urgent item, done in time",
        recommends("b", verdict="confirmed", completion="DONE", time_ratio=1.0, alignment=0.5),
        prioritizer(
            acceptance=1.0, completion=1.0, time=0.5, strategic_fit=0.15, opportunity_cost=0.0, energy=0.15, flow=0.1
        ),
        2.42,  # 1 + 1 + .25 + .12 + 0 + .03 + .02
        1.0,
    ),
    Case(
        "put away",
        recommends("c", completion="COLD_STORAGE", time_ratio=0.1),
        prioritizer(completion=0.0, time=0.0, strategic_fit=0.0, opportunity_cost=-0.1, flow=0.0),
        -0.03,
        0.4925,
    ),
)

SECTIONS = {
    "completedItem": {"id": "i", "title": "Book Lisbon flights"},
    "targetOpus": {"id": "o", "name": "Travel"},
    "targetSections": [
        {"heading": "Flights", "content": "Lisbon flights leave daily."},
        {"heading": "Hotels", "content": "None yet."},
    ],
}


def stores(text: str, *, correction: Any = None, method: str = "APPEND", **measures: Any) -> Facts:
    action = {"integrationDecision": "INTEGRATE", "location": "Flights", "method": method, "suggestedContent": text}
    return Facts(measures=measures, state=SECTIONS, action=action, correction=correction)


def storer(**values: float) -> dict[str, float]:
    return {f"storer.{name}": value for name, value in values.items()}


STORER = kind(
    "STORER",
    Case(
        "the app says all",
        said(verdict="corrected", edit_ratio=0.5, coherence=0.8, findability=1.0, duplicate=True),
        {"verdict": -0.5} | storer(edits=-0.05, coherence=0.4, findability=0.3, duplication=-0.5),
        -0.265,  # −.5 − .025 + .28 + .18 − .2
        0.43375,
    ),
    Case(
        "confirmed",
        stores("Lisbon trains stop.", verdict="confirmed"),
        # Lisbon of (lisbon, trains, stop) and (flights, lisbon, flights, leave, daily): 1 / √(3 · 7). Both lisbon and
        # flights of (book, lisbon, flights), since the location counts. No run of three words stands there.
        {"verdict": 1.0} | storer(edits=0.0, coherence=0.5 / math.sqrt(21), findability=0.2, duplication=0.0),
        1.12 + 0.35 / math.sqrt(21),
        0.78 + 0.0875 / math.sqrt(21),
    ),
    Case(
        "said already",
        stores(
            "Lisbon flights leave daily.",
            verdict="corrected",
            correction={"suggestedContent": "Lisbon flights leave hourly."},
        ),
        {"verdict": -0.5} | storer(edits=-0.025, coherence=0.5 * 5 / math.sqrt(28), findability=0.2, duplication=-0.5),
        -0.5925 + 1.75 / math.sqrt(28),  # −.5 − .0125 + .35 · cosine + .12 − .2
        0.351875 + 0.4375 / math.sqrt(28),
    ),
    Case(
        "only the place was wrong",
        stores("Lisbon flights leave daily.", method="REPLACE", verdict="corrected", correction={"location": "Hotels"}),
        {"verdict": -0.5} | storer(edits=0.0, coherence=2.5 / math.sqrt(28), findability=0.2, duplication=0.0),
        -0.38 + 1.75 / math.sqrt(28),
        0.405 + 0.4375 / math.sqrt(28),
    ),
    Case(
        "put into cold storage",
        Facts(measures={"verdict": "confirmed"}, state=SECTIONS, action={"integrationDecision": "COLD_STORAGE"}),
        {"verdict": 1.0},
        1.0,
        0.75,
    ),
)

ASKED = {
    "query": "When do Lisbon flights leave?",
    "relevantOpuses": [{"id": "o1", "content": "Flights leave daily at noon."}, {"id": "o2"}],
}


def answers(text: str, *citations: Any, correction: Any = None, **measures: Any) -> Facts:
    action = {"generatedContent": text, "sourceCitations": list(citations)}
    return Facts(measures=measures, state=ASKED, action=action, correction=correction)


def retriever(**values: float) -> dict[str, float]:
    return {f"retriever.{name}": value for name, value in values.items()}


RETRIEVER = kind(
    "RETRIEVER",
    Case("confirmed", said(verdict="confirmed"), retriever(acceptance=1.0), 1.0, 0.75),
    Case("corrected", said(verdict="corrected"), retriever(acceptance=-1.0), -1.0, 0.25),
    Case("ignored", said(verdict="ignored"), retriever(acceptance=0.0), 0.0, 0.5),
    Case(
        "the app says all",
        said(
            verdict="confirmed",
            edit_ratio=0.2,
            citation_quality=1.0,
            hallucinations=0,
            completeness=1.0,
            coherence=0.5,
            style=1.0,
        ),
        retriever(
            acceptance=1.0, edits=-0.02, citations=0.5, hallucination=0.0, completeness=0.3, coherence=0.2, style=0.2
        ),
        1.71,  # 1 − .01 + .4 + .18 + .08 + .06
        0.9275,
    ),
    Case("two hallucinations", said(hallucinations=2), retriever(hallucination=-2.0), -4.0, 0.0),
    Case("more than the clamp lets through", said(hallucinations=40), retriever(hallucination=-40.0), -5.0, 0.0),
    Case(
        "cited and quoted, from the text alone",
        answers("Lisbon flights leave at noon. Flights leave daily.", {"opusId": "o1", "quote": "leave daily"}, "o2"),
        # All of lisbon, flights, leave; sentences share flights and leave of (4 words, 3 words); short sentences.
        retriever(citations=0.5, hallucination=0.0, completeness=0.3, coherence=0.4 * 2 / math.sqrt(12), style=0.2),
        0.64 + 0.32 / math.sqrt(12),  # .4 + .18 + .16 · cosine + .06
        0.66 + 0.08 / math.sqrt(12),
    ),
    Case(
        "made up",
        answers("Trains leave.", "o9", {"opusId": "o1", "quote": "leave at night"}, verdict="overridden"),
        retriever(acceptance=-1.0, citations=0.0, hallucination=-2.0, completeness=0.1, style=0.2),
        -4.88,  # −1 − 4 + .06 + .06
        0.0,
    ),
    Case(
        "corrected in text and citations",
        answers(
            "Flights leave daily.",
            "o1",
            verdict="corrected",
            correction={"generatedContent": "Flights leave daily at noon.", "sourceCitations": ["o1", "o2"]},
        ),
        # Three of five words inserted or replaced (daily. → daily, at, noon.); F1 = 2 · 1 / (1 + 2).
        retriever(acceptance=-1.0, edits=-0.06, citations=1 / 3, hallucination=0.0, completeness=0.2, style=0.2),
        -1.0 - 0.03 + 0.8 / 3 + 0.12 + 0.06,
        0.2875 + 0.2 / 3,
    ),
    Case(
        "no citation although there were documents",
        answers("Flights leave daily."),
        retriever(citations=0.0, completeness=0.2, style=0.2),
        0.18,
        0.545,
    ),
)


def traced(**fields: Any) -> Facts:
    code = fields.pop("code", None)
    measures = {} if code is None else {"measured.trace.code_execution": {"value": code}}
    return Facts(measures=measures, trace=Trace(**fields))


def trace(**values: float) -> dict[str, float]:
    return {f"trace.{name}": value for name, value in values.items()}


REPLY = "Done.\n```python\nprint(1)\n```\nand\n~~~py\nprint(\n~~~\nand\n```sh\nls\n```\n"
TRACED = kind(
    "TRACES",
    Case("nothing recorded", Facts(), {}, 0.0, 0.0),
    Case("an empty trace", traced(), trace(tool_success=0.5), 4.5, 0.5),  # the mean of what is known
    Case(
        "a good one",
        traced(
            response="All done.",
            tasks_created=4,
            tasks_completed=4,
            tokens=500,
            llm_calls=2,
            tool_calls=3,
            tool_ends=3,
            tool_successes=3,
            steps=3,
            code=1.0,
        ),
        trace(
            code_execution=1.0,
            syntax=0.5,
            tool_success=1.0,
            task_completion=1.0,
            efficiency=0.78,
            format_compliance=1.0,
        ),
        7.39 * 9 / 8,  # 2 + .5 + 2 + 1.5 + .5 · (.4 · .75 + .3 · .8 + .3 · .8) + 1, and `learned` is not measured
        7.39 / 8,
    ),
    Case(
        "a bad one",
        traced(
            response=REPLY + "<answer>no</answer> and <br/>",
            tasks_created=5,
            tasks_completed=2,
            tasks_failed=3,
            tokens=9000,
            llm_calls=5,
            tool_calls=4,
            tool_ends=4,
            tool_successes=1,
            steps=15,
            code=0.5,
        ),
        trace(
            code_execution=0.5,
            syntax=0.5,
            tool_success=0.25,
            task_completion=0.28,  # 2/5 − .2 · 3/5
            efficiency=0.15,
            format_compliance=0.7,
        ),
        3.195 * 9 / 8,  # 1 + .5 + .5 + .42 + .075 + .7
        3.195 / 8,
    ),
    Case(
        "nothing but tags, and every task failed",
        traced(response="<a>" * 9, tasks_created=2, tasks_completed=0, tasks_failed=2, tool_calls=1),
        trace(syntax=0.5, task_completion=0.0, format_compliance=0.5),
        1.0 * 9 / 3.5,
        1 / 3.5,
    ),
    Case(
        "tokens that nobody reported",
        traced(llm_calls=5, steps=3),
        trace(tool_success=0.5, efficiency=0.65),  # (.3 · .5 + .3 · .8) / .6
        1.325 * 9 / 2.5,
        1.325 / 2.5,
    ),
)


@pytest.mark.parametrize(("preset", "case"), [*FILER, *LIBRARIAN, *PRIORITIZER, *STORER, *RETRIEVER, *TRACED])
def test_the_reward_of(preset: Preset, case: Case) -> None:
    values = values_of(preset, case.facts)
    assert values == pytest.approx(case.values)
    total = sum(preset.weights[name] * value for name, value in values.items())
    total *= share_weights(preset.unknown, list(preset.weights.values()), [preset.weights[name] for name in values])
    raw = max(-preset.clamp, min(preset.clamp, total))
    assert raw == pytest.approx(case.raw)
    assert max(0.0, min(1.0, (raw - preset.low) / (preset.high - preset.low))) == pytest.approx(case.reward)


def test_the_kinds_have_these_weights() -> None:
    assert {name: dict(preset.weights) for name, preset in {**PRESETS, "TRACES": TRACES}.items()} == {
        "FILER": {
            "verdict": 1.0,
            "calibration": 0.1,
            "filer.completion": 0.5,
            "filer.blocked": 0.3,
            "filer.rework": 0.2,
            "filer.time": 0.3,
            "filer.alignment": 0.4,
            "filer.opportunity_cost": 0.2,
        },
        "LIBRARIAN": {"verdict": 1.0} | librarian(2.0, 0.5, 2.0, 0.5),
        "PRIORITIZER": prioritizer(
            acceptance=1.0, completion=1.0, time=0.5, strategic_fit=0.8, opportunity_cost=0.3, energy=0.2, flow=0.2
        ),
        "STORER": {"verdict": 1.0} | storer(edits=0.5, coherence=0.7, findability=0.6, duplication=0.4),
        "RETRIEVER": retriever(
            acceptance=1.0, edits=0.5, citations=0.8, hallucination=2.0, completeness=0.6, coherence=0.4, style=0.3
        ),
        "GUARDRAIL": {"verdict": 1.0},
        "CUSTOM": {"verdict": 1.0},
        "TRACES": trace(
            code_execution=2.0,
            syntax=1.0,
            tool_success=2.0,
            task_completion=1.5,
            efficiency=0.5,
            format_compliance=1.0,
            learned=1.0,
        ),
    }
