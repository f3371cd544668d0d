"""Finds the runs that used a decision, through the items of their datasets, for `decisions.queries.lineage`."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db.models import Q

from decisions.queries.lineage import Use, use_reader
from training.models import DatasetItem, TrainingRun
from training.run_states import RunState
from workspaces.models import Workspace

__all__ = ["read_uses"]


@use_reader
def read_uses(workspace: Workspace, ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, Use]:
    """Only runs that have made a version count: of the others nothing stayed. Two queries for any number of ids."""
    items = DatasetItem.objects.filter(decision_id__in=ids, dataset__workspace=workspace)
    holding: dict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    for decision, dataset in items.values_list("decision_id", "dataset_id"):
        holding[decision].add(dataset)
    held = set().union(*holding.values())
    if not held:
        return {}
    runs = list(
        TrainingRun.objects.for_workspace(workspace)
        .filter(Q(dataset__in=held) | Q(replay__in=held) | Q(heldout__in=held), state=RunState.SUCCEEDED.value)
        .order_by("-created_at", "-id")
        .values_list("id", "dataset_id", "replay_id", "heldout_id")
    )
    found = {}
    for decision, datasets in holding.items():
        learnt = [run for run, dataset, replay, _ in runs if dataset in datasets or replay in datasets]
        measured = [run for run, _, _, heldout in runs if heldout in datasets]
        if learnt or measured:
            found[decision] = Use(bool(learnt), bool(measured), next(iter(learnt or measured)))
    return found
