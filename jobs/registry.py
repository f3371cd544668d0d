"""Job kinds: the upper floors register handlers here, so that this floor does not depend on them.

The module `tasks` of every app does that. It is imported when a kind is first needed, so a command that uses no jobs
loads none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import autodiscover_modules

if TYPE_CHECKING:
    from jobs.context import JobContext

Handler = Callable[["JobContext"], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """`on_end` is told, inside the ending transaction, that a job of this kind ended without success. `kept`: its jobs
    are never removed. `stall_setting` names the setting with the seconds without progress after which an attempt
    is ended."""

    name: str
    handler: Handler
    queue: str
    on_end: Callable[[Any], None] | None
    kept: bool = False
    stall_setting: str = "JOB_STALL_SECONDS"


_KINDS: dict[str, Kind] = {}


def list_kinds() -> dict[str, Kind]:
    """Every kind by its name."""
    _load_tasks()
    return _KINDS


@cache
def _load_tasks() -> None:
    autodiscover_modules("tasks")


def job_kind(
    name: str,
    *,
    queue: str = "default",
    on_end: Callable[[Any], None] | None = None,
    kept: bool = False,
    stall_setting: str = "JOB_STALL_SECONDS",
) -> Callable[[Handler], Handler]:
    """Decorator. The handler takes a JobContext and returns the job's result (a JSON object or None)."""

    def register(handler: Handler) -> Handler:
        if name in _KINDS:
            raise ValueError(f"job kind {name} is registered twice")
        _KINDS[name] = Kind(name, handler, queue, on_end, kept, stall_setting)
        return handler

    return register
