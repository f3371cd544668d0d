"""What STORER and RETRIEVER share: how much of their text a person changed. PURE."""

from __future__ import annotations

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts
from decisions.rewards.components.payoffs import Measure, paid
from decisions.rewards.components.texts import changed_share, field, text


def edits(at: str) -> Measure:
    """How much of the action's text, which stands in this field, the correction changed."""

    def find(facts: Facts, parameters: Parameters) -> float | None:
        before, after = text(field(facts.action, at)), field(facts.correction, at)
        if isinstance(after, str):
            return changed_share(before, text(after))
        # A person who confirmed it, or corrected other fields only, left the text as it was.
        left = facts.verdict == "confirmed" if facts.correction is None else isinstance(facts.correction, dict)
        return 0.0 if left and before else None

    find.__doc__ = f"m = words of `{at}` that the correction changed / words of the longer text; 0 once confirmed."
    return find


def edits_component(name: str, at: str) -> Component:
    return paid(
        name,
        "delayed",
        "how much of the text a person changed",
        -0.1,
        weight=0.5,
        metric="edit_ratio",
        metrics=("verdict",),
        find=edits(at),
        reads=frozenset({"content", "correction"}),
    )
