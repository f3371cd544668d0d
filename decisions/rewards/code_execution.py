"""Measures `trace.code_execution`: the share of a response's Python and shell blocks that run in the sandbox."""

from __future__ import annotations

from decisions.rewards.components import ComponentError, Facts
from decisions.rewards.measuring import Measurer, by_facts
from sandbox.blocks import run_blocks
from sandbox.limits import Limits

SECONDS = 30.0
"""For one block."""
NOTHING_TO_RUN = 0.5


def run_response(facts: Facts) -> float | None:
    """In [0, 1]; `NOTHING_TO_RUN` for a response without blocks, None while there is no response. Raises SandboxError
    where nothing can be run here: that says nothing of the response."""
    if facts.trace is None:
        raise ComponentError("the episode was erased")
    if not facts.trace.response:
        return None
    share = run_blocks(facts.trace.response, limits=Limits(seconds=SECONDS)).share
    return NOTHING_TO_RUN if share is None else share


MEASURER = Measurer(version=1, reads=frozenset({"trace"}), begin=by_facts(run_response))
