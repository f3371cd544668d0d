"""Queues with decisions to label, and actors for the people of the workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decisions.labelling.queues import QueueSetup, create_queue
from tools.factories import DecisionFactory, MembershipFactory, UserFactory
from workspaces.actors import person


@pytest.fixture
def queue(by: Any, agent: Any) -> Callable[..., Any]:
    """`queue(decisions=3, **setup)`: with decisions of a rising confidence, oldest first in `.made`."""

    def make(decisions: int = 3, **setup: Any) -> Any:
        made = [
            DecisionFactory(agent=agent, action="travel", confidence=0.01 * number)
            for number in range(1, decisions + 1)
        ]
        found = create_queue(by=by, slug="tickets", setup=QueueSetup(name="Tickets", **setup))
        found.made = made
        return found

    return make


@pytest.fixture
def reviewer(workspace: Any) -> Callable[..., Any]:
    """`reviewer("ann")`: an actor who may label; `reviewer("ann", "admin")`."""

    def make(name: str, role: str = "labeller") -> Any:
        user = UserFactory(email=f"{name}@example.org", name=name.capitalize())
        MembershipFactory(workspace=workspace, user=user, role=role)
        return person(user, workspace, role)

    return make
