"""What is known of one decision when it is rewarded. PURE.

Built from a row of SQL for decisions of the ledger, and by the engine for fresh ones. A component declares the groups
that it reads, so that only those are fetched for a million decisions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

Group = Literal["content", "correction", "usage", "trace"]
"""Facts beyond measures, confidence and age, which are always read.

content: state, options, action, completion, alternatives, reasoning; correction: the corrected action; usage: latency,
tokens, cost; trace: what happened around the decision.
"""
NOTHING: Mapping[str, Any] = {}


class ComponentError(ValueError):
    """The component has no value for this decision; the message says why."""


class Trace(msgspec.Struct, frozen=True):
    """What happened in the episode of the decision; without an episode, in the decision's own steps.

    `measures`: by metric, the feedback on the episode that counts. Counts are of steps that are known; `tool_successes`
    are tool calls that ended well, `tool_ends` those of which somebody said how they ended. `tasks_*` are None where
    nobody reported tasks."""

    query: str = ""
    response: str = ""
    tasks_created: int | None = None
    tasks_completed: int | None = None
    tasks_failed: int | None = None
    tokens: int | None = None
    llm_calls: int = 0
    tool_calls: int = 0
    tool_ends: int = 0
    tool_successes: int = 0
    steps: int = 0
    measures: Mapping[str, Any] = NOTHING

    @property
    def fingerprint(self) -> str:
        """Of query and response, which jobs measure: 16 hex digits."""
        return hashlib.sha256(f"{self.query}\0{self.response}".encode(errors="surrogatepass")).hexdigest()[:16]


class Facts(msgspec.Struct, frozen=True):
    """One decision. What nobody said is None, or absent from `measures`.

    action, state, options, alternatives: JSON values as recorded. confidence: in [0, 1]. `answer` is the right action
    where a verifier or a labelled row knows it (fresh decisions only). `measures` holds, by metric, the value of the
    feedback that counts: "verdict", an item's end ("completion", "cycles", …), numbers that an app sends, and what
    measuring jobs wrote. `correction` is the right action that the label which counts named. `age`: seconds since the
    server recorded the decision. `place` is the decision's among the `count` of its episode, 0 the first; `others` are
    the traces of the agent's other episodes of the same query, where the spec's credit scheme compares with them.
    """

    measures: Mapping[str, Any] = NOTHING
    confidence: float | None = None
    age: float = 0.0
    action: Any = None
    answer: Any = None
    state: Any = None
    options: Any = None
    completion: str | None = None
    alternatives: Any = None
    reasoning: str | None = None
    correction: Any = None
    latency_ms: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    trace: Trace | None = None
    place: int = 0
    count: int = 1
    others: Sequence[Trace] = ()

    @property
    def verdict(self) -> Any:
        """The verdict that counts, or None before any."""
        return self.measures.get("verdict")

    def number(self, metric: str, *, low: float = float("-inf"), high: float = float("inf")) -> float | None:
        """The measure of this metric as a number, None where nobody sent one. Raises ComponentError where what was sent
        is no number, or lies outside [low, high]. True and false are 1 and 0."""
        value = self.measures.get(metric)
        if value is None:
            return None
        if not isinstance(value, (int, float)):
            raise ComponentError(f"{metric} is {str(value)[:40]!r}, not a number")
        if not low <= value <= high:  # NaN too
            raise ComponentError(f"{metric} is {value}, outside {low:g} to {high:g}")
        return float(value)

    def flag(self, metric: str) -> bool | None:
        """The measure as true or false (1 and 0 count), None where nobody said. Raises ComponentError otherwise."""
        value = self.measures.get(metric)
        if value is None:
            return None
        if value is True or value is False or value in (0, 1):
            return bool(value)
        raise ComponentError(f"{metric} is {str(value)[:40]!r}, neither true nor false")

    def measured(self, component: str) -> float | None:
        """What a measuring job found for this component; None before it has run, and once the trace says something else
        than what was measured. Raises ComponentError where it failed.

        The job writes feedback of the metric `measured.<component>`: {"value": number} or {"error": why}, with the
        component's version and, as `of`, the fingerprint of the trace.
        """
        found = self.measures.get(f"measured.{component}")
        if found is None:
            return None
        if isinstance(found, Mapping):
            now = self.trace.fingerprint if self.trace is not None else None
            if now is not None and found.get("of", now) != now:
                return None
            if "error" in found:
                raise ComponentError(str(found["error"]))
            if isinstance(found.get("value"), (int, float)):
                return float(found["value"])
        raise ComponentError(f"measured.{component} holds neither a value nor an error")
