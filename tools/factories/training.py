"""Factories of datasets, runs, exports, erasures and rehearsals."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from models_registry.artifacts import opening as artifacts
from models_registry.models import (
    ArtifactKind,
)
from tools.factories.decisions import AgentFactory, DecisionFactory
from tools.factories.models_registry import INTERVAL, ArtifactFactory, ModelVersionFactory, put_files
from tools.factories.workspaces import WorkspaceFactory
from training.loops.rehearsal.plan import Plan
from training.models import (
    DatasetItem,
    DatasetKind,
    DatasetSnapshot,
    Erasure,
    Evaluation,
    EvaluationSuite,
    ExportJob,
    Rehearsal,
    RunEvent,
    RunMetric,
    SuiteScore,
    TrainingRun,
)

IMPORT_PAYLOAD = {"what": "labelled", "file": "rows.jsonl", "upload": "01a1f9b2-7a31-7d4e-b0c2-5e8f17a6c904"}
"""Of a job that imports a file, which is not there."""


def put_rows(rows: Sequence[Mapping[str, Any]]) -> artifacts.StoredArtifact:
    """A dataset's rows.jsonl as an artifact of the store."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return put_files({"rows.jsonl": lines}, kind=ArtifactKind.DATASET)


class DatasetSnapshotFactory(DjangoModelFactory[DatasetSnapshot]):
    class Meta:
        model = DatasetSnapshot

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    name = factory.Sequence(lambda n: f"dataset {n}")
    kind = DatasetKind.LABELLED
    artifact = factory.SubFactory(
        ArtifactFactory, kind=ArtifactKind.DATASET, workspace=factory.SelfAttribute("..workspace")
    )
    rows = 1


class DatasetItemFactory(DjangoModelFactory[DatasetItem]):
    class Meta:
        model = DatasetItem

    dataset = factory.SubFactory(DatasetSnapshotFactory)
    decision = factory.SubFactory(DecisionFactory, agent=factory.SelfAttribute("..dataset.agent"))
    reward_version = 1


class ErasureFactory(DjangoModelFactory[Erasure]):
    """One that was asked for and has no job yet; `start_erasure` makes the whole."""

    class Meta:
        model = Erasure

    workspace = factory.SubFactory(WorkspaceFactory)
    kind = "unit"
    subject = factory.Sequence(lambda n: f"person-{n}")
    secret = factory.LazyFunction(lambda: secrets.token_bytes(32))
    fingerprint = factory.Sequence(lambda n: f"{n:064x}")
    requested_by = "system"


class TrainingRunFactory(DjangoModelFactory[TrainingRun]):
    """A queued run without a job; `start_run` makes the whole."""

    class Meta:
        model = TrainingRun

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    method = "pretrain"
    dataset = factory.SubFactory(DatasetSnapshotFactory, agent=factory.SelfAttribute("..agent"))
    base_model = "tiny"
    spec = factory.LazyFunction(lambda: {"method": "pretrain"})
    requested_by = "system"


class RunEventFactory(DjangoModelFactory[RunEvent]):
    class Meta:
        model = RunEvent

    run = factory.SubFactory(TrainingRunFactory)
    attempt = 1
    sequence = factory.Sequence(lambda n: n)
    kind = "progress"
    at = factory.LazyFunction(timezone.now)


class RunMetricFactory(DjangoModelFactory[RunMetric]):
    class Meta:
        model = RunMetric

    run = factory.SubFactory(TrainingRunFactory)
    attempt = 1
    step = factory.Sequence(lambda n: n)
    name = "loss"
    value = 1.0


class EvaluationFactory(DjangoModelFactory[Evaluation]):
    class Meta:
        model = Evaluation

    run = factory.SubFactory(TrainingRunFactory)
    workspace = factory.SelfAttribute("run.workspace")
    version = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..run.agent.registered_model")
    )
    dataset = factory.SelfAttribute("run.dataset")
    rows = 10
    scores = factory.LazyFunction(
        lambda: {name: {"accuracy": INTERVAL, "reward": INTERVAL} for name in ("base", "trained")}
    )
    differences = factory.LazyFunction(lambda: {"accuracy": INTERVAL, "reward": INTERVAL})


class EvaluationSuiteFactory(DjangoModelFactory[EvaluationSuite]):
    """Of a dataset without files; `create_suite` makes the whole."""

    class Meta:
        model = EvaluationSuite

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    name = factory.Sequence(lambda n: f"suite {n}")
    dataset = factory.SubFactory(DatasetSnapshotFactory, agent=factory.SelfAttribute("..agent"))
    scorer = factory.LazyFunction(lambda: {"right": 1.0, "wrong": 0.0})


SUITE_LABEL = {"label": "travel", "rows": 10, "accuracy": INTERVAL, "chosen": 8, "precision": 0.75}
SUITE_BIN = {"confidence": 0.7, "accuracy": 0.5, "low": 0.4, "high": 0.6, "rows": 10}


class SuiteScoreFactory(DjangoModelFactory[SuiteScore]):
    """Measures without the answers' file."""

    class Meta:
        model = SuiteScore

    suite = factory.SubFactory(EvaluationSuiteFactory)
    workspace = factory.SelfAttribute("suite.workspace")
    version = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..suite.agent.registered_model")
    )
    answers = factory.SubFactory(
        ArtifactFactory, kind=ArtifactKind.DATASET, workspace=factory.SelfAttribute("..workspace")
    )
    rows = 10
    scores = factory.LazyFunction(
        lambda: {
            "accuracy": INTERVAL,
            "error_rate": INTERVAL,
            "reward": INTERVAL,
            "valid_share": INTERVAL,
            "calibration_error": 0.2,
            "bins": [SUITE_BIN],
            "labels": [SUITE_LABEL],
            "slices": [],
            "errors": [{"id": "1", "answer": "travel", "action": "finance", "p": 0.9}],
        }
    )


class ExportJobFactory(DjangoModelFactory[ExportJob]):
    class Meta:
        model = ExportJob

    version = factory.SubFactory(ModelVersionFactory)
    workspace = factory.SelfAttribute("version.workspace")


class RehearsalFactory(DjangoModelFactory[Rehearsal]):
    """One that was asked for and has no job yet; `start_rehearsal` makes the whole."""

    class Meta:
        model = Rehearsal

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"Rehearsal of notes-{n}.csv")
    digest = factory.Sequence(lambda n: f"{n:064x}")
    source = factory.SubFactory(ArtifactFactory, workspace=factory.SelfAttribute("..workspace"), kind="dataset")
    plan = factory.LazyFunction(lambda: Plan().as_plain())
    about = factory.LazyFunction(lambda: {"file": "notes.csv", "text_field": "body", "label_field": "folder"})
    requested_by = "system"
