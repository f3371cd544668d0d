"""What of this floor holds artifacts (`models_registry.artifacts.holders`): datasets, exports, rehearsals, scores, and
versions that runs, exports, shadows and scorings under way need."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from decisions.models import Shadow, ShadowState
from jobs.models import TERMINAL, Job
from models_registry.artifacts.holders import artifact_holder, leave, version_holder
from training.evaluation.suites import SCORE
from training.models import DatasetSnapshot, ExportJob, Rehearsal, SuiteScore, TrainingRun
from training.models.export import ExportState
from training.models.run import TERMINAL_VALUES


@artifact_holder("a dataset", "training.DatasetSnapshot.artifact")
def _datasets(artifacts: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    return DatasetSnapshot.objects.filter(artifact__in=artifacts).values_list("artifact", flat=True)


@artifact_holder("an export", "training.ExportJob.artifact")
def _exports(artifacts: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    found = ExportJob.objects.filter(artifact__in=artifacts).values_list("artifact", flat=True)
    return [artifact for artifact in found if artifact is not None]


@artifact_holder("a rehearsal", "training.Rehearsal.source")
def _rehearsals(artifacts: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    return Rehearsal.objects.filter(source__in=artifacts).values_list("source", flat=True)


@artifact_holder("a score on a suite", "training.SuiteScore.answers")
def _scores(artifacts: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    return SuiteScore.objects.filter(answers__in=artifacts).values_list("answers", flat=True)


@version_holder("an export under way", "training.ExportJob.version")
def _exporting(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    under_way = ExportJob.objects.filter(version__in=versions, state=ExportState.QUEUED)
    return under_way.values_list("version", flat=True)


@version_holder("a run under way", "training.TrainingRun.base_version")
def _runs(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    """As its base, or as the reward model that its spec names."""
    from training.runs.reward_models import find_reward_version  # it loads pydantic, which most commands need not

    named = {str(version): version for version in versions}
    for base, spec in TrainingRun.objects.exclude(state__in=TERMINAL_VALUES).values_list("base_version", "spec"):
        yield from (named[one] for one in (str(base), find_reward_version(spec)) if one in named)


@version_holder("a shadow under way", "decisions.Shadow.version")
def _shadows(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    under_way = Shadow.objects.filter(version__in=versions, state=ShadowState.RUNNING)
    return under_way.values_list("version", flat=True)


@version_holder("a scoring under way")
def _scorings(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    named = {str(version): version for version in versions}
    jobs = Job.objects.filter(kind=SCORE, payload__version__in=list(named)).exclude(state__in=TERMINAL)
    return [named[version] for version in jobs.values_list("payload__version", flat=True)]


leave(
    "History: the row records what was measured or decided, with the figures.",
    "decisions.Decision.model_version",
    "training.Evaluation.against",
    "training.Evaluation.version",
    "training.SuiteScore.against",
    "training.SuiteScore.version",
    "training.TrainingRun.produced_version",
)
