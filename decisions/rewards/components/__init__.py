"""Reward components: small functions of facts, one file for each kind of agent, in one table. PURE.

The ledger values a million decisions with them, and the engine fresh ones: there is no second definition. A component
that cannot be computed raises `ComponentError`; a failure is stored as an error and is never the number 0.
docs/rewards.md shows the table, and how a team adds its own.
"""

from __future__ import annotations

from decisions.rewards.components import everyone, filer, librarian, prioritizer, retriever, storer, traces
from decisions.rewards.components.component import Component, Horizon, Parameter, Parameters, Scope
from decisions.rewards.components.everyone import VERDICT_VALUES, read_json
from decisions.rewards.components.facts import ComponentError, Facts, Group, Trace
from decisions.rewards.components.installed import Table

__all__ = [
    "COMPONENTS",
    "FRESH_ONLY",
    "VERDICT_VALUES",
    "Component",
    "ComponentError",
    "Facts",
    "Group",
    "Horizon",
    "Parameter",
    "Parameters",
    "Scope",
    "Trace",
    "read_json",
]

COMPONENTS = Table(
    {
        component.name: component
        for module in (everyone, filer, librarian, prioritizer, storer, retriever, traces)
        for component in (*module.COMPONENTS, *getattr(module, "FRESH_ONLY", ()))
    }
)
FRESH_ONLY = frozenset(component.name for component in everyone.FRESH_ONLY)
"""Components of fresh decisions, which the ledger cannot value."""
