"""The variants of an experiment: how its arms are named.

Beside its model version an arm may have a set-up: a version of an agent. Agents are the ledger's, which this floor does
not know: it starts such experiments by `services.open_experiment`, and makes a winner's set-up its
agent's own (`ledger.Ledger.adopt_setup`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from models_registry.models import Variant


@dataclass(frozen=True, slots=True)
class ArmSetupNames:
    """What the arms' set-ups are called, such as “filer v3”, and the slug of the agent whose versions they are: only
    its units take part. notes: what the experiment's log says of them."""

    control: str
    treatment: str
    agent: str
    notes: tuple[str, ...] = ()


def name_variants(variants: Iterable[Variant]) -> dict[str, str]:
    """By arm: what its units get, in words. Only what the arms differ in, where there are two."""
    given = list(variants)
    one_version = len({variant.version_id for variant in given}) == 1
    return {variant.arm: _name(variant, with_version=not one_version) for variant in given}


def _name(variant: Variant, *, with_version: bool) -> str:
    if not variant.setup:
        return str(variant.version)
    return f"{variant.version} with {variant.setup}" if with_version else variant.setup
