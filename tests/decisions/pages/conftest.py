"""A decision whose fields show what a page makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.models import Decision
from tools.factories import (
    OPTIONS,
    DecisionFactory,
)


@pytest.fixture
def decision(agent: Any) -> Decision:
    return DecisionFactory(
        agent=agent,
        state={"text": "a ticket to <Lisbon>", "items": ["one"]},
        action="travel",
        propensity=0.6123,
        alternatives=[{"action": o, "probability": p} for o, p in zip(OPTIONS, (0.3, 0.6123, 0.0877), strict=True)],
    )
