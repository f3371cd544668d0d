"""The versions of an agent whose pages are looked at."""

from typing import Any

import pytest

from tools.factories import AliasFactory, ModelVersionFactory


@pytest.fixture
def versions(agent: Any) -> list[Any]:
    """filer:1, the champion, and filer:2."""
    made = [ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2)]
    AliasFactory(version=made[0])
    return made
