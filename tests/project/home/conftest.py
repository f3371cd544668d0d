"""Each test of the home page begins with an empty cache."""

from __future__ import annotations

import pytest
from django.core.cache import cache


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()
