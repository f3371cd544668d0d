"""Requests on their way through the model thread: a payload, and the future that its caller waits for. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from training.engine.serving.faults import Fault

INTERNAL = Fault("internal_error", "the request failed; the server's log has the reason")
STOPPING = Fault("shutting_down", "the model server is stopping")

T = TypeVar("T")
P = TypeVar("P")


@dataclass(slots=True, eq=False)
class Job(Generic[P, T]):
    payload: P
    future: Future[T]


def fail(jobs: Iterable[Job[Any, Any]], fault: Fault) -> None:
    """Tells the callers that still wait."""
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(fault)
