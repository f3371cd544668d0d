"""Examples of reward components, reward specs and their drafts for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decisions.api.examples import A_CALCULATION, DECISION
from workspaces.http.examples import MOMENT, Example, page

SPEC = "01a1f7fc-3a52-7d10-8e4b-5c6d7e8f9a0b"
DRAFT = "01a1f9b4-2b7e-7c33-9a55-1d2e3f4a5b6c"
FILER = {"slug": "filer"}

A_COMPONENT = {
    "name": "filer.time",
    "summary": "time spent, against what was expected",
    "horizon": "delayed",
    "scope": "decision",
    "low": -0.5,
    "high": 0.5,
    "weight": 0.3,
    "window_days": 30.0,
    "missing": None,
    "measured": False,
    "parameters": {"quick": 0.5, "quick_ratio": 1.2, "slow": -0.5, "slow_ratio": 2.0},
    "metrics": ["time_ratio", "completion"],
    "reads": [],
    "says_right": False,
    "proxy": "",
}
CONTENT: dict[str, Any] = {
    "components": [{"name": "verdict", "weight": 2.0, "parameters": {}, "window_days": 14.0, "missing": 0.0}],
    "clamp": 5.0,
    "low": -2.0,
    "high": 2.0,
    "unknown": "left_out",
    "credit": "equal",
    "discount": 1.0,
    "signal": "verdict",
    "training_low": -1.0,
    "training_high": 2.0,
    "judges": None,
}
FIRST: dict[str, Any] = {
    "id": SPEC,
    "number": 1,
    **CONTENT,
    "components": [{"name": "verdict", "weight": 1.0, "parameters": {}, "window_days": None, "missing": None}],
    "training_low": -0.5,
    "training_high": 1.0,
    "spec_hash": "9f2b6c1d0e4a8f7b3c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b",
    "created_at": MOMENT,
}
SECOND = FIRST | CONTENT | {"number": 2}
ASKED = {
    "expected_number": 1,
    "components": [{"name": "verdict", "weight": 2, "window_days": 14, "missing": 0}],
}
UNCHANGED = {"expected_number": 1, "components": [{"name": "verdict"}]}
A_DRAFT = {
    "id": DRAFT,
    "base": 1,
    "content": CONTENT,
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "result": None,
    "published": None,
    "made_by": "admin@example.org",
    "created_at": MOMENT,
}


def _measured(mean: float, n: int) -> dict[str, Any]:
    return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05, "n": n}


def _side(mean: float) -> dict[str, Any]:
    counts = [0] * 9 + [28] + [0] * 8 + [68] + [0] * 6
    return {"valued": 96, "failed": 0, "reward": _measured(mean, 96), "histogram": counts, "failures": []}


_VALUED = {
    "population": 96,
    "sampled": 96,
    "seed": 1,
    "before": _side(0.64),
    "after": _side(0.71),
    "both": 96,
    "changed": 68,
    "rank_correlation": 1.0,
    "movers": [
        {"decision": DECISION, "before": 0.375, "after": 0.25, "rank_before": 0.2, "rank_after": 0.14},
    ],
    "versions": [
        {"actor": "filer:1", "before": _measured(0.61, 40), "after": _measured(0.66, 40)},
        {"actor": "filer:2", "before": _measured(0.66, 56), "after": _measured(0.75, 56)},
    ],
    "leader_before": {"actor": "filer:2", "clear": False},
    "leader_after": {"actor": "filer:2", "clear": False},
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "list_reward_components": [Example({"results": [A_COMPONENT]})],
    "list_reward_specs": [Example(page(FIRST), path=FILER)],
    "read_reward_spec": [
        Example(FIRST | {"changes": [], "judges_left_out": {}}, path={**FILER, "number": "1"}, query={"against": "1"}),
    ],
    "revise_reward_spec": [
        Example(SECOND | {"calculation": A_CALCULATION}, 201, ASKED, FILER, name="a new version"),
        Example(FIRST | {"calculation": None}, 200, UNCHANGED, FILER, name="no change"),
    ],
    "list_reward_drafts": [Example(page(A_DRAFT), path=FILER)],
    "draft_reward_spec": [Example(A_DRAFT, 202, ASKED, FILER)],
    "read_reward_draft": [
        Example(A_DRAFT, path={**FILER, "id": DRAFT}, name="waiting"),
        Example(
            A_DRAFT | {"state": "succeeded", "progress": 1.0, "result": _VALUED},
            path={**FILER, "id": DRAFT},
            name="valued",
        ),
    ],
    "publish_reward_draft": [Example(SECOND | {"calculation": A_CALCULATION}, 201, path={**FILER, "id": DRAFT})],
    "drop_reward_draft": [Example(A_DRAFT, path={**FILER, "id": DRAFT})],
}
