"""Registers the jobs of this floor. Runs have a queue of their own, so that they delay no other jobs, and exports have
one, so that they wait for no run."""

from __future__ import annotations

from functools import partial

from celery import shared_task

from jobs.registry import job_kind
from training.datasets import freezing
from training.environments import drawing as task_datasets
from training.environments import recording
from training.evaluation.suites import services as suites
from training.exports import services as exports
from training.imports import services as imports
from training.lineage import erasure
from training.loops import best
from training.loops.first_model import services as first_models
from training.loops.pipeline import services as pipelines
from training.loops.rehearsal import services as rehearsals
from training.runs import services as runs
from training.shadows import ANSWER, rounds
from training.shadows import services as shadows
from training.supervision import job as supervision

# Each of these waits for an engine.
of_engine = partial(job_kind, stall_setting="RUN_STALL_SECONDS")
of_engine(runs.SUPERVISE, queue="training", on_end=runs.end_with_job)(supervision.supervise_run)
of_engine(exports.EXPORT, queue="exports", on_end=exports.end_with_job)(exports.export_version)
of_engine(suites.SCORE, queue="training")(suites.score_version)
job_kind(freezing.KIND)(partial(freezing.freeze_dataset, start_runs=best.start_requested_best))
job_kind(task_datasets.KIND)(task_datasets.draw_datasets_in_job)
job_kind(recording.KIND)(recording.record_held_out_episodes)
job_kind(imports.KIND)(imports.run_import)
job_kind(erasure.KIND)(erasure.erase_person)
job_kind(first_models.KIND, on_end=first_models.end_with_job)(first_models.train_first_model)
job_kind(best.KIND, on_end=best.end_with_job)(best.train_best)
job_kind(pipelines.KIND, on_end=pipelines.end_with_job)(pipelines.run_pipeline)
job_kind(rehearsals.KIND, on_end=rehearsals.end_with_job)(rehearsals.rehearse)
job_kind(ANSWER, on_end=shadows.end_with_job)(rounds.answer_shadow)


@shared_task(name="training.queue_shadows")
def queue_shadows() -> None:
    rounds.queue_rounds()
