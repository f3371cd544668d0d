"""Queues with decisions or episodes to label, and actors for the people of the workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decisions.labelling.queues import QueueSetup, create_queue
from tools.factories import DecisionFactory, EpisodeFactory, MembershipFactory, UserFactory
from workspaces.access.actors import person


@pytest.fixture
def subject() -> str:
    """What queues ask about; tests of both are parametrized with it."""
    return "decision"


@pytest.fixture
def make_one(agent: Any, subject: str) -> Callable[..., Any]:
    """`make_one(confidence=0.3, id=…)`: a decision, or an episode with one of that confidence."""

    def make(confidence: float = 0.5, **fields: Any) -> Any:
        decided: dict[str, Any] = {"agent": agent, "action": "travel", "confidence": confidence}
        if subject == "decision":
            return DecisionFactory(**decided, **fields)
        episode = EpisodeFactory(agent=agent, **fields)
        DecisionFactory(episode=episode, **decided)
        return episode

    return make


@pytest.fixture
def queue(by: Any, make_one: Callable[..., Any], subject: str) -> Callable[..., Any]:
    """`queue(3, **setup)`: with decisions or episodes of a rising confidence, oldest first in `.made`."""

    def make(count: int = 3, **setup: Any) -> Any:
        made = [make_one(0.01 * number) for number in range(1, count + 1)]
        found = create_queue(by=by, slug="tickets", setup=QueueSetup(name="Tickets", subject=subject, **setup))
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
