"""The names of scores on tasks, where a run shows them. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOMAINS = "domains"
"""Under this name scores and differences hold {domain: interval of solved tasks}."""


def name_policies(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores or differences on tasks with `serving_success` beside `accuracy`, which is the same; others as they
    are."""
    named = {"serving_success": scores["accuracy"]} if "accuracy" in scores and DOMAINS in scores else {}
    return {**scores, **named}
