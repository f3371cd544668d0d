"""Marks datasets and versions that learnt from erased rows, and refuses to train from marked datasets.

A version's weights cannot forget; the mark lets people decide to retire it (docs/erasure.md, docs/adr/0008).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from jobs.errors import Permanent
from models_registry.erasure import mark_versions, remove_artifact
from models_registry.models import ModelVersion
from training.engine.spec.samples import SAMPLES_FILE
from training.errors import RunOver
from training.evaluation.log_gate import remove_log
from training.models import DatasetSnapshot, EvaluationSuite, TrainingRun
from training.run_states import TERMINAL_STATES
from training.runs.reward_models import find_reward_models, find_reward_version
from training.runs.services import cancel_run
from workspaces.access.actors import system
from workspaces.models import Workspace

HANDED = {"dataset": "train", "replay": "replay", "heldout": "heldout"}
"""A run's datasets by what their rows are called in its folder (`training.supervision.job.prepare_folder`)."""

_MARK = """
UPDATE training_datasetsnapshot s
   SET erased_rows = s.erased_rows + n.rows, marked_at = coalesce(s.marked_at, %(now)s)
  FROM (SELECT dataset_id, count(*) AS rows FROM training_datasetitem
         WHERE decision_id = ANY(%(ids)s) GROUP BY dataset_id) n
 WHERE s.id = n.dataset_id AND s.workspace_id = %(workspace)s
"""


def mark_datasets(*, workspace: Workspace, ids: Sequence[uuid.UUID]) -> int:
    """Marks the datasets that hold these decisions, which were erased in the same transaction; rows found in them."""
    with connection.cursor() as cursor:
        cursor.execute(_MARK, {"workspace": workspace.id, "ids": list(ids), "now": timezone.now()})
        cursor.execute("SELECT count(*) FROM training_datasetitem WHERE decision_id = ANY(%s)", [list(ids)])
        return int(cursor.fetchone()[0])


def _learnt_from_marked(workspace: Workspace) -> Q:
    marked = DatasetSnapshot.objects.for_workspace(workspace).filter(marked_at__isnull=False)
    return Q(dataset__in=marked) | Q(replay__in=marked)


def cancel_marked_runs(workspace: Workspace) -> int:
    """Runs under way over a marked dataset are told to stop; how many. Call outside a transaction."""
    told = 0
    under_way = TrainingRun.objects.for_workspace(workspace).exclude(state__in=[s.value for s in TERMINAL_STATES])
    for run in under_way.filter(_learnt_from_marked(workspace), job__isnull=False):
        try:
            cancel_run(by=system(workspace), run=run)
        except RunOver:
            continue  # it ended by itself; what it made is marked below
        told += 1
    return told


def mark_made_versions(workspace: Workspace) -> int:
    """Versions of runs over marked datasets, and all that came from those; how many are newly marked."""
    made = TrainingRun.objects.for_workspace(workspace).filter(
        _learnt_from_marked(workspace), produced_version__isnull=False
    )
    versions = list(made.values_list("produced_version_id", flat=True))
    marked = mark_versions(workspace=workspace, ids=versions, now=timezone.now())
    while taught := _taught_by_marked(workspace):
        marked += mark_versions(workspace=workspace, ids=taught, now=timezone.now())
    return marked


def _taught_by_marked(workspace: Workspace) -> list[uuid.UUID]:
    """Versions that are not marked yet, of runs whose reward was a marked reward model's."""
    marked = {
        str(pk) for pk in find_reward_models(workspace).filter(marked_at__isnull=False).values_list("id", flat=True)
    }
    if not marked:
        return []
    runs = TrainingRun.objects.for_workspace(workspace).filter(
        produced_version__marked_at=None, produced_version__isnull=False
    )
    told = runs.values_list("spec__reward", "produced_version_id")
    return [pk for reward, pk in told if find_reward_version({"reward": reward}) in marked]


def refuse_marked(run: TrainingRun) -> None:
    """Raises Permanent where rows that the run would learn from or be measured on were erased."""
    for dataset in (run.dataset, run.replay, run.heldout):
        if dataset is not None and dataset.marked_at is not None:
            raise Permanent(f"{dataset.erased_rows} rows of {dataset.name} were erased: rebuild the dataset")


def mark_new_version(run: TrainingRun, version: ModelVersion) -> None:
    """A run that ended while its rows were being erased, or that began with a marked version, makes a marked one."""
    marked = DatasetSnapshot.objects.filter(id__in=[run.dataset_id, run.replay_id], marked_at__isnull=False).exists()
    parents = [pk for pk in (version.parent_id, version.base_id, find_reward_version(run.spec)) if pk is not None]
    if marked or ModelVersion.objects.filter(id__in=parents, marked_at__isnull=False).exists():
        ModelVersion.objects.filter(id=version.id).update(marked_at=timezone.now())


def remove_marked_files(workspace: Workspace) -> int:
    """Removes the files of marked datasets, the rows of them that runs were handed, and what was predicted or shown of
    such rows: it names the options that they offered. How many datasets; idempotent.

    Call outside a transaction.
    """
    marked = DatasetSnapshot.objects.for_workspace(workspace).filter(marked_at__isnull=False)
    still_there = marked.filter(artifact__removed_at=None).count()
    for dataset in marked.select_related("artifact"):
        remove_artifact(artifact=dataset.artifact)
    for suite in EvaluationSuite.objects.filter(dataset__in=marked):
        for score in suite.scores.select_related("answers"):
            remove_artifact(artifact=score.answers)  # it names the right answers
        for run_id in TrainingRun.objects.filter(agent=suite.agent_id).values_list("id", flat=True):
            for path in (settings.RUNS / str(run_id)).glob(f"**/suite-{suite.id}.jsonl"):
                path.unlink(missing_ok=True)
    for run_id in TrainingRun.objects.for_workspace(workspace).values_list("id", flat=True):
        remove_log(run_id)  # of a killed attempt: its decisions stand in no dataset
    for role, name in HANDED.items():
        runs = TrainingRun.objects.for_workspace(workspace).filter(**{f"{role}__in": marked})
        for run_id in runs.values_list("id", flat=True):
            folder = settings.RUNS / str(run_id)
            (folder / "data" / f"{name}.jsonl").unlink(missing_ok=True)
            remove_samples(run_id)
            if role == "heldout":
                for predictions in folder.glob("attempts/*/predictions.jsonl"):
                    predictions.unlink(missing_ok=True)
    return still_there


def remove_samples(run_id: uuid.UUID) -> None:
    """Removes what the run's page shows of single rows. Idempotent."""
    for path in (settings.RUNS / str(run_id)).glob(f"attempts/*/*{SAMPLES_FILE}"):
        path.unlink(missing_ok=True)


def remove_erased_samples(run: TrainingRun) -> None:
    """After the engine: it may have written of rows that were erased meanwhile."""
    handed = [pk for pk in (run.dataset_id, run.replay_id, run.heldout_id) if pk is not None]
    if DatasetSnapshot.objects.filter(id__in=handed, marked_at__isnull=False).exists():
        remove_samples(run.id)
