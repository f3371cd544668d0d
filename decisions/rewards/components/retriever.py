"""Components of the RETRIEVER agent. PURE."""

from __future__ import annotations

from decisions.rewards.components.component import Component

COMPONENTS: tuple[Component, ...] = ()
