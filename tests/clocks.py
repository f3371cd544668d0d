"""This machine's clock, moved: what the application reads, not what PostgreSQL does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.utils import timezone

from workspaces.storage import clock


class MovedClock:
    """`ahead` of the database's; hours are set by a test."""

    def __init__(self) -> None:
        self.ahead = dt.timedelta(0)

    def set_ahead(self, **parts: float) -> None:
        self.ahead = dt.timedelta(**parts)


@pytest.fixture
def moved_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovedClock]:
    moved, real = MovedClock(), timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + moved.ahead)
    yield moved
    moved.ahead = dt.timedelta(0)
    clock._measured = None
