"""The table of what is removed after how long, for the daily job, the command and the page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone

from decisions.rewards.what_if import delete_old_drafts
from jobs.context import JobContext
from jobs.lifetimes import delete_dead_jobs, delete_ended_jobs, delete_hints
from models_registry.artifacts.collecting import collect_artifacts
from models_registry.artifacts.opening import remove_incoming
from models_registry.calls.records import delete_old_calls
from training.runs.lifetimes import delete_run_events, remove_run_files

REMOVE_EXPIRED = "project.remove_expired"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One kind: the setting that says how many days it is kept (0: for ever), and what removes it, batch by batch."""

    kind: str
    what: str
    setting: str
    remove: Callable[[dt.datetime], Iterator[int]]
    least: float = 0.0

    @property
    def days(self) -> float:
        days = float(getattr(settings, self.setting))
        return max(days, self.least) if days > 0 else 0.0

    @property
    def kept(self) -> str:
        """For how long, in words."""
        return "forever" if not self.days else "1 day" if self.days == 1 else f"{self.days:g} days"


LIVES = (
    # Two days at least: by its job of today beat knows that the day's work is done.
    Lifetime("ended jobs", "Jobs that succeeded or were cancelled", "KEEP_JOB_DAYS", delete_ended_jobs, least=2.0),
    Lifetime("dead jobs", "Jobs that failed permanently", "KEEP_DEAD_JOB_DAYS", delete_dead_jobs),
    Lifetime("hints", "Outbox rows of ended jobs", "KEEP_HINT_DAYS", delete_hints),
    Lifetime("run events", "Log lines of ended runs", "KEEP_RUN_EVENT_DAYS", delete_run_events),
    Lifetime("run files", "Checkpoints and copies of weights of ended runs", "KEEP_RUN_FILE_DAYS", remove_run_files),
    Lifetime("drafts", "Drafts of reward specs that were not published", "KEEP_DRAFT_DAYS", delete_old_drafts),
    Lifetime("calls", "Calls of the gateway that are over", "KEEP_CALL_DAYS", delete_old_calls),
    Lifetime("artifacts", "Artifacts that nothing uses", "KEEP_ARTIFACT_DAYS", collect_artifacts),
    Lifetime("incoming", "Incomplete artifacts", "KEEP_INCOMING_DAYS", remove_incoming),
)


def remove_expired(*, now: dt.datetime | None = None) -> Iterator[tuple[str, int]]:
    """Removes what has been kept for long enough; yields (kind, how many) before a kind (0) and after every batch."""
    moment = now or timezone.now()
    for life in LIVES:
        yield life.kind, 0
        if life.days > 0:
            for count in life.remove(moment - dt.timedelta(days=life.days)):
                yield life.kind, count


def remove_in_job(context: JobContext) -> dict[str, int]:
    """The daily job. No fence: what is gone is gone, and a second attempt goes on with what is left."""
    removed = dict.fromkeys((life.kind for life in LIVES), 0)
    for kind, count in remove_expired():
        removed[kind] += count
        context.progress(list(removed).index(kind) / len(removed), f"{kind}: {removed[kind]} removed")
    return removed
