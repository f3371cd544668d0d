"""Publishes what a run has made: files, version, evaluation, verdicts, and the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.services import enqueue_job
from models_registry.models import Artifact, ArtifactKind, GateVerdict, ModelVersion
from models_registry.versions.services import NewVersion, register_version, store_artifact
from training.engine.spec.methods import METHODS
from training.engine.spec.run_spec import RunSpec
from training.environments import recording
from training.evaluation.log_gate import LoggedDecision, judge_by_log
from training.evaluation.plain_baseline import Words, compare_on_heldout, read_lessons, teach_words
from training.evaluation.scores import Scored, gate_version, score_pairs, score_predictions
from training.evaluation.suites.services import find_suites, make_score, save_score
from training.evaluation.tasks import score_tasks
from training.lineage.marks import mark_new_version
from training.models import Evaluation, SuiteScore, TrainingRun
from training.run_states import RunState
from training.runs.classifiers import encoder_of
from training.runs.launcher import Finished
from training.runs.services import move_run
from training.supervision.cards import card_of_run, find_base_name
from training.supervision.figures import keep_metrics
from training.supervision.serving import find_serving_fault
from workspaces.access.actors import system

KINDS = {
    "model": ArtifactKind.MODEL,
    "adapter": ArtifactKind.ADAPTER,
    "classifier": ArtifactKind.CLASSIFIER,
}
"""By the output of an attempt."""


def publish(context: JobContext, run: TrainingRun, finished: Finished, log: Sequence[LoggedDecision] = ()) -> None:
    """Files first, then version, evaluation, gates and the run's end in one fenced transaction.

    `log`: the decisions that the engine was given to ask the new version about.
    """
    scored = _score(run, finished)
    by_log = _judge_log(run, finished, log)
    context.confirm_owned()
    artifact = _store_files(run, finished, scored, by_log)
    words = teach_words(read_lessons(settings.RUNS / str(run.id)))
    suites = _score_suites(run, finished, words)
    plain = _compare(run, finished, words) if _is_policy(run) else None
    fault = _find_serving_fault(run, finished, artifact)
    with context.fenced():
        version = _register(run, finished, artifact, may_serve=fault is None)
        _save_evaluation(run, finished, version, scored, plain)
        _save_verdicts(run, version, by_log, suites)
        _queue_recording(run, finished)
        _end_run(context, run, finished, version, message=f"{version} cannot serve: {fault}" if fault else str(version))


def _is_policy(run: TrainingRun) -> bool:
    return not METHODS[run.method].makes_reward_model


def _judge_log(run: TrainingRun, finished: Finished, log: Sequence[LoggedDecision]) -> GateVerdict | None:
    """The verdict on logged decisions; None of a reward model, which decides nothing."""
    if not _is_policy(run):
        return None
    answers = finished.result.log
    return judge_by_log(run, log, finished.folder / answers if answers is not None else None)


def _store_files(run: TrainingRun, finished: Finished, scored: Scored | None, by_log: GateVerdict | None) -> Artifact:
    """Stores the weights with their card."""
    result, base = finished.result, _find_weights(run, finished)
    kind = KINDS[str(result.output)]
    if not _is_policy(run):
        kind = ArtifactKind.REWARD_MODEL
    meta = {
        "run": str(run.id),
        "weights_sha256": result.weights_sha256,
        "acting_sha256": result.acting_sha256,
        "base_model": find_base_name(run),
    }
    if base is not None:
        meta["base"] = base.stored.digest
    assert result.output is not None
    return store_artifact(
        workspace=run.workspace,
        folder=finished.folder / result.output,
        kind=kind,
        meta=meta,
        texts=card_of_run(run, kind=kind, scores=scored.scores.get("trained") if scored else None, by_log=by_log),
    )


def _score_suites(run: TrainingRun, finished: Finished, words: Words | None) -> list[SuiteScore]:
    """Scores of the suites that the engine answered."""
    answers = finished.result.suites
    return [
        make_score(suite, finished.folder, answers[str(suite.id)], words)
        for suite in find_suites(run.agent)
        if str(suite.id) in answers
    ]


def _find_weights(run: TrainingRun, finished: Finished) -> ModelVersion | None:
    """Returns the version whose weights an adapter lies over, or the encoder under a classifier; None for full weights
    and for a classifier of words."""
    base = run.base_version
    if finished.result.output == "classifier":
        named = encoder_of(run.workspace, run.spec)
        if named is not None or base is None or base.is_encoder:
            return named or base
        return base.base if base.is_classifier else None
    return base.weights if finished.result.output == "adapter" and base is not None else None


def _find_serving_fault(run: TrainingRun, finished: Finished, artifact: Artifact) -> str | None:
    """Returns why the model server cannot serve what would become the first champion."""
    assert run.agent.registered_model is not None
    if not _is_policy(run):
        return None
    return find_serving_fault(run.agent.registered_model, artifact, _find_weights(run, finished))


def _register(run: TrainingRun, finished: Finished, artifact: Artifact, *, may_serve: bool) -> ModelVersion:
    assert run.agent.registered_model is not None
    return register_version(
        by=system(run.workspace),
        model=run.agent.registered_model,
        new=NewVersion(
            artifact=artifact,
            method=run.method,
            base=_find_weights(run, finished),
            parent=run.base_version,
            description=f"{run.method} on {run.dataset}",
            metrics=finished.result.metrics,
            may_serve=may_serve,
        ),
    )


def _save_evaluation(
    run: TrainingRun, finished: Finished, version: ModelVersion, scored: Scored | None, plain: dict[str, Any] | None
) -> None:
    """Writes the evaluation on held-out rows, and the verdict of their gate; nothing where none were scored."""
    if scored is None or run.heldout is None:
        return
    result, base = finished.result, run.base_version
    base = base if base is not None and base.is_policy else None
    Evaluation.objects.create(
        workspace=run.workspace,
        run=run,
        version=version,
        against=base if _is_policy(run) else None,
        dataset=run.heldout,
        rows=scored.rows,
        unanswered=result.unanswered,
        without_feedback=result.without_feedback,
        scores=scored.scores,
        differences=scored.differences,
        plain=plain,
    )
    if base is not None and not result.unanswered:
        gate_version(version=version, against=base, scored=scored)


def _save_verdicts(
    run: TrainingRun, version: ModelVersion, by_log: GateVerdict | None, suites: Sequence[SuiteScore]
) -> None:
    if by_log is not None:
        by_log.version = version
        by_log.save()
    for score in suites:
        save_score(score, version, run)


def _queue_recording(run: TrainingRun, finished: Finished) -> None:
    """Queues the recording of the run's episodes, where it has some."""
    if finished.result.episodes is not None:
        enqueue_job(kind=recording.KIND, workspace=run.workspace, payload={"run": str(run.id)})


def _end_run(context: JobContext, run: TrainingRun, finished: Finished, version: ModelVersion, *, message: str) -> None:
    mark_new_version(run, version)
    kept = keep_metrics(finished.result)
    move_run(run, RunState.SUCCEEDED, produced_version=version, progress=1.0, metrics=kept, message=message[:500])
    context.complete({"version": str(version), "run": str(run.id)})


def _compare(run: TrainingRun, finished: Finished, words: Words | None) -> dict[str, Any] | None:
    if words is None or finished.result.predictions is None:
        return None
    folder, told = finished.folder, finished.result
    rankings = folder / told.rankings if told.rankings is not None else None
    return compare_on_heldout(words, settings.RUNS / str(run.id), folder / str(told.predictions), rankings)


def _score(run: TrainingRun, finished: Finished) -> Scored | None:
    if finished.result.predictions is None:
        return None
    if METHODS[run.method].makes_reward_model:
        return score_pairs(finished.folder / finished.result.predictions)

    if run.heldout is not None and run.heldout.is_of_tasks:
        return score_tasks(finished.folder / finished.result.predictions)
    asked = RunSpec.model_validate_json((finished.folder.parent.parent / "spec.json").read_text()).evaluate
    return score_predictions(
        finished.folder / finished.result.predictions,
        finished.result,
        spec=current_reward_spec(run.agent),
        free_rows=asked.free_rows if asked is not None else 0,
    )
