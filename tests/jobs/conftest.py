"""Job kinds of the tests' own, and the hints that would have gone to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs.registry import job_kind, list_kinds
from project.celery import app


@pytest.fixture
def kind() -> Iterator[Callable[..., str]]:
    """`kind(handler, on_end=…)` registers a kind for this test and returns its name."""
    made: list[str] = []

    def register(handler: Callable[[Any], Any], **options: Any) -> str:
        name = f"tests.{handler.__name__}_{len(made)}"
        job_kind(name, **options)(handler)
        made.append(name)
        return name

    yield register
    for name in made:
        del list_kinds()[name]


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the jobs whose hint the broker took, in order."""
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, args, **options: sent.append(args[0]))
    return sent
