"""Finds the runs that a page shows, with all that it shows of them."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet
from django.http import Http404

from training.models import TrainingRun
from workspaces.pages.guard import PageRequest


def runs_of(request: PageRequest) -> QuerySet[TrainingRun]:
    """Of the page's workspace."""
    found: QuerySet[TrainingRun] = TrainingRun.objects.for_workspace(request.workspace).select_related(
        "agent",
        "dataset",
        "replay",
        "heldout",
        "base_version__registered_model",
        "produced_version__registered_model",
        "evaluation__dataset",
    )
    return found


def get_run(request: PageRequest, pk: uuid.UUID) -> TrainingRun:
    """Of the page's workspace. Raises Http404."""
    run = runs_of(request).select_related("base_version__artifact").filter(pk=pk).first()
    if run is None:
        raise Http404("Run not found.")
    return run
