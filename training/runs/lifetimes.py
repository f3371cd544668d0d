"""Removes files and events of ended runs after their time. Called by the daily job."""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from django.conf import settings

from training.models import ExportJob, RunEvent, TrainingRun

EVENTS = 5_000
FOLDERS = 100
# What an attempt needs to go on, and its copy of what the store holds. Results, predictions, events and logs stay.
WORKING = ("checkpoints", "checkpoint-epoch-*", "model", "adapter")


def remove_run_files(before: dt.datetime) -> Iterator[int]:
    """Checkpoints and copies of weights of runs that ended before then, and the folders of such exports.

    Yields how many folders went of each hundred runs.
    """
    folders = settings.RUNS.iterdir() if settings.RUNS.is_dir() else iter(())
    while some := list(islice(folders, FOLDERS)):
        runs = _by_id(some, "")
        over = TrainingRun.objects.filter(id__in=runs, finished_at__lt=before).values_list("id", flat=True)
        going = [place for run in over for name in WORKING for place in runs[run].glob(f"attempts/*/{name}")]
        exports = _by_id(some, "export-")
        ended = ExportJob.objects.filter(id__in=exports, finished_at__lt=before).values_list("id", flat=True)
        going += [exports[export] for export in ended]
        for place in going:
            shutil.rmtree(place)
        yield len(going)


def _by_id(folders: list[Path], prefix: str) -> dict[uuid.UUID, Path]:
    found = {}
    for folder in folders:
        try:
            found[uuid.UUID(folder.name.removeprefix(prefix))] = folder
        except ValueError:
            continue  # of the other kind, or nobody's
    return found


def delete_run_events(before: dt.datetime) -> Iterator[int]:
    """What engines of runs that ended before then said; curves and changes of state stay. Yields counts of batches."""
    rows = RunEvent.objects.filter(attempt__gt=0, run__finished_at__lt=before)
    while ids := list(rows.values_list("id", flat=True)[:EVENTS]):
        RunEvent.objects.filter(id__in=ids).delete()
        yield len(ids)
