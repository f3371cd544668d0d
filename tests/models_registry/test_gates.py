"""What the verdicts of both gates say together."""

from __future__ import annotations

from typing import Any

import pytest

from models_registry.versions.gates import read_gate
from tools.factories import GateVerdictFactory, ModelVersionFactory

pytestmark = pytest.mark.django_db

BETTER: dict[str, Any] = {"passed": True, "estimate": 0.1, "low": 0.05, "high": 0.15}
UNCLEAR: dict[str, Any] = {"passed": False, "estimate": 0.01, "low": -0.05, "high": 0.07}
WORSE: dict[str, Any] = {"passed": False, "estimate": -0.1, "low": -0.15, "high": -0.05}
REFUSED: dict[str, Any] = {
    "passed": False, "refusals": ["The log is short."], "estimate": None, "low": None, "high": None
}  # fmt: skip


@pytest.mark.parametrize(
    ("held_out", "off_policy", "passed", "blocks", "deciding"),
    [
        (BETTER, BETTER, True, False, "held_out"),
        (BETTER, REFUSED, True, False, "held_out"),
        (BETTER, UNCLEAR, True, False, "held_out"),
        (BETTER, WORSE, False, True, "off_policy"),
        (UNCLEAR, BETTER, True, False, "off_policy"),
        (WORSE, BETTER, False, True, "held_out"),
        (UNCLEAR, REFUSED, False, True, "held_out"),
        (None, BETTER, True, False, "off_policy"),
        (None, UNCLEAR, False, True, "off_policy"),
        (None, REFUSED, False, False, None),
        (None, None, False, False, None),
    ],
)
def test_one_gate_must_pass_and_none_may_show_harm(
    held_out: Any, off_policy: Any, passed: bool, blocks: bool, deciding: str | None
) -> None:
    version = ModelVersionFactory()
    for kind, fields in (("held_out", held_out), ("off_policy", off_policy)):
        if fields is not None:
            GateVerdictFactory(version=version, kind=kind, **BETTER)  # an older one does not count
            GateVerdictFactory(version=version, kind=kind, **fields)
    gate = read_gate(version)
    assert (gate.passed, gate.blocks) == (passed, blocks)
    assert (gate.deciding.kind if gate.deciding else None) == deciding
