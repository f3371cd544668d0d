"""Components of traces: what a recorded episode shows by itself, without any feedback. PURE.

All lie in [0, 1]. With the parameter `binary` a component is 1 from `threshold` on and 0 below. `nothing` is the value
where there is nothing to judge: no code, no tool call, no task.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping

from decisions.rewards.components.component import Component, Parameter, Parameters
from decisions.rewards.components.everyone import verdict_value
from decisions.rewards.components.facts import ComponentError, Facts, Group, Trace
from sandbox.blocks import MOST_SOURCE, find_blocks, parse_blocks, without_blocks

WINDOW_DAYS = 7.0
READS: frozenset[Group] = frozenset({"trace"})
_filters = threading.Lock()  # the filters of warnings are one list for all threads
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_TAG = re.compile(r"</?[A-Za-z_][\w.-]*(?::[\w.-]+)?(?:\s[^<>]*)?/?>")


def syntax(trace: Trace, parameters: Parameters) -> float | None:
    """The share of the response's fenced Python blocks that Python can parse. Raises ComponentError for a block that is
    too long to try."""
    if not trace.response:
        return None
    longest = max((len(block.code) for block in find_blocks(trace.response)), default=0)
    if longest > MOST_SOURCE:
        raise ComponentError(f"a block has {longest} characters, more than {MOST_SOURCE}")
    share = parse_blocks(trace.response).share
    return float(parameters["nothing"]) if share is None else share


def tool_success(trace: Trace, parameters: Parameters) -> float | None:
    """The share of tool calls that ended well, among those of which somebody said how they ended."""
    if trace.tool_ends > 0:
        if not 0 <= trace.tool_successes <= trace.tool_ends:
            raise ComponentError(f"{trace.tool_successes} of {trace.tool_ends} tool calls ended well")
        return trace.tool_successes / trace.tool_ends
    return None if trace.tool_calls else float(parameters["nothing"])


def task_completion(trace: Trace, parameters: Parameters) -> float | None:
    """completed / created − `per_failure` · failed / created, at least 0; None where nobody reported tasks."""
    if trace.tasks_created is None or trace.tasks_completed is None:
        return None
    created, completed, failed = trace.tasks_created, trace.tasks_completed, trace.tasks_failed or 0
    if min(created, completed, failed) < 0 or completed > created:
        raise ComponentError(f"{completed} tasks completed and {failed} failed of {created} created")
    if not created:
        return float(parameters["nothing"])
    return max(0.0, (completed - float(parameters["per_failure"]) * failed) / created)


def efficiency(trace: Trace, parameters: Parameters) -> float | None:
    """Σ weight · (1 − min(1, used / limit)) / Σ weight over tokens, model calls and steps. Tokens that nobody reported
    are left out, and the others share their weight; None for a trace without tokens, calls and steps."""
    used = {"tokens": trace.tokens, "calls": trace.llm_calls, "steps": trace.steps}
    if not trace.tokens and not trace.llm_calls and not trace.steps:
        return None
    value = weights = 0.0
    for name, amount in used.items():
        if amount is None:
            continue
        if amount < 0:
            raise ComponentError(f"{amount} {name}, less than 0")
        limit, weight = float(parameters[f"{name}_limit"]), float(parameters[f"{name}_weight"])
        if limit <= 0 or weight < 0:
            raise ComponentError(f"{name}_limit must be above 0, {name}_weight at least 0")
        value += weight * (1.0 - min(1.0, amount / limit))
        weights += weight
    return min(1.0, value / weights) if weights else None


def format_compliance(trace: Trace, parameters: Parameters) -> float | None:
    """1 − min(`most`, `per_tag` · XML tags in the response). Tags in code do not count."""
    if not trace.response:
        return None
    tags = len(_TAG.findall(_INLINE_CODE.sub("", without_blocks(trace.response))))
    return 1.0 - min(float(parameters["most"]), float(parameters["per_tag"]) * tags)


def outcome(facts: Facts, parameters: Parameters) -> float | None:
    """The feedback on the episode whose metric the parameter `metric` names: a number from -1 to 1. `verdict` is worth
    what the verdict on a decision is."""
    if facts.trace is None:
        return None
    heard, metric = Facts(measures=facts.trace.measures), str(parameters["metric"])
    return verdict_value(heard, parameters) if metric == "verdict" else heard.number(metric, low=-1.0, high=1.0)


def soft_or_binary(value: float | None, parameters: Parameters) -> float | None:
    """The value in [0, 1], or whether it reaches the threshold."""
    if value is None:
        return None
    if not 0.0 <= value <= 1.0:
        raise ComponentError(f"the value is {value:g}, outside 0 to 1")
    return float(value >= float(parameters["threshold"])) if parameters["binary"] else value


def of_trace(
    name: str,
    summary: str,
    find: Callable[[Trace, Parameters], float | None],
    *,
    weight: float,
    low: float = 0.0,
    threshold: float = 1.0,
    parameters: Mapping[str, Parameter] | None = None,
    proxy: str = "",
) -> Component:
    def value(facts: Facts, given: Parameters) -> float | None:
        return None if facts.trace is None else soft_or_binary(find(facts.trace, given), given)

    value.__doc__ = find.__doc__
    return Component(
        name,
        "immediate",
        value,
        summary,
        low,
        1.0,
        weight=weight,
        scope="episode",
        reads=READS,
        window_days=WINDOW_DAYS,
        parameters={**(parameters or {}), "binary": False, "threshold": threshold},
        bounds=_any_share,
        proxy=proxy,
    )


def of_job(name: str, summary: str, *, weight: float, threshold: float, proxy: str = "") -> Component:
    def value(facts: Facts, given: Parameters) -> float | None:
        return soft_or_binary(facts.measured(name), given)

    value.__doc__ = "What the measuring job found of the trace as it is now, in [0, 1]."
    return Component(
        name,
        "immediate",
        value,
        summary,
        0.0,
        1.0,
        weight=weight,
        scope="episode",
        metrics=(f"measured.{name}",),
        reads=READS,
        window_days=WINDOW_DAYS,
        parameters={"binary": False, "threshold": threshold},
        measured=True,
        proxy=proxy,
    )


def _any_share(parameters: Parameters) -> tuple[float, float]:
    return 0.0, 1.0


COMPONENTS: tuple[Component, ...] = (
    Component(
        "episode.outcome",
        "delayed",
        outcome,
        "what was reported of the whole episode",
        -1.0,
        1.0,
        scope="episode",
        reads=READS,
        window_days=WINDOW_DAYS,
        parameters={"metric": "reward"},
        right=1.0,
        wrong=0.0,
    ),
    of_job("trace.code_execution", "its Python and shell blocks run (0.5 if none)", weight=2.0, threshold=1.0),
    of_trace("trace.syntax", "its Python blocks parse", syntax, weight=1.0, parameters={"nothing": 0.5}),
    of_trace("trace.tool_success", "its tool calls end well", tool_success, weight=2.0, parameters={"nothing": 0.5}),
    of_trace(
        "trace.task_completion",
        "its tasks were completed",
        task_completion,
        weight=1.5,
        parameters={"per_failure": 0.2, "nothing": 0.5},
    ),
    of_trace(
        "trace.efficiency",
        "few tokens, calls and steps",
        efficiency,
        weight=0.5,
        threshold=0.5,
        parameters={
            "tokens_limit": 2000.0,
            "tokens_weight": 0.4,
            "calls_limit": 10.0,
            "calls_weight": 0.3,
            "steps_limit": 15.0,
            "steps_weight": 0.3,
        },
    ),
    of_trace(
        "trace.format_compliance",
        "no XML tags in the response",
        format_compliance,
        weight=1.0,
        low=0.5,
        parameters={"per_tag": 0.1, "most": 0.5},
    ),
    of_job(
        "trace.learned",
        "a classifier trained on people's labels likes it",
        weight=1.0,
        threshold=0.5,
        proxy="a model of people's labels, not a person's own label",
    ),
)
