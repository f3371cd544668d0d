"""One factory a model. Rows that satisfy every constraint; tests override what they are about.

What belongs together shares its workspace: give `workspace=` (or the parent row) once and the rest follows.
`MODEL_FACTORIES` at the end maps every model of the project to its factory; a test asserts that none is missing.
"""

from __future__ import annotations

from typing import Any

from factory.django import DjangoModelFactory

from tools.factories.decisions import (
    DRAFTED,
    OPTIONS,
    AgentFactory,
    AgentVersionFactory,
    AutoLabelerFactory,
    BulkLabelFactory,
    DecisionFactory,
    EpisodeFactory,
    ErasedNameFactory,
    FeedbackFactory,
    ItemFactory,
    LabelFactory,
    LabelQueueFactory,
    LabelSuggestionFactory,
    MeasurementDueFactory,
    ProjectFactory,
    QueueItemFactory,
    ReservationFactory,
    RewardDraftFactory,
    RewardDueFactory,
    RewardFactory,
    RewardProgressFactory,
    RewardSpecFactory,
    SkipFactory,
    StatusChangeFactory,
    StepFactory,
    TraceClassifierFactory,
    uuid7_at,
)
from tools.factories.jobs import JobFactory, OutboxFactory
from tools.factories.models_registry import (
    INTERVAL,
    AliasFactory,
    ArtifactFactory,
    ExperimentFactory,
    ExposureFactory,
    FailedRequestFactory,
    GateVerdictFactory,
    ModelVersionFactory,
    ObservationFactory,
    PhaseFactory,
    RegisteredModelFactory,
    VariantFactory,
    put_files,
)
from tools.factories.training import (
    IMPORT_PAYLOAD,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    ErasureFactory,
    EvaluationFactory,
    ExportJobFactory,
    RehearsalFactory,
    RunEventFactory,
    RunMetricFactory,
    TrainingRunFactory,
    put_rows,
)
from tools.factories.workspaces import (
    PASSWORD,
    ApiKeyFactory,
    AuditEntryFactory,
    InvitationFactory,
    KeptAnswerFactory,
    MembershipFactory,
    UserFactory,
    WorkspaceFactory,
)
from workspaces.ids import uuid7

MODEL_FACTORIES: dict[type[Any], type[DjangoModelFactory[Any]]] = {
    found._meta.model: found  # type: ignore[attr-defined]
    for found in list(globals().values())
    if isinstance(found, type) and issubclass(found, DjangoModelFactory) and found is not DjangoModelFactory
}
__all__ = [
    "DRAFTED",
    "IMPORT_PAYLOAD",
    "INTERVAL",
    "MODEL_FACTORIES",
    "OPTIONS",
    "PASSWORD",
    "AgentFactory",
    "AgentVersionFactory",
    "AliasFactory",
    "ApiKeyFactory",
    "ArtifactFactory",
    "AuditEntryFactory",
    "AutoLabelerFactory",
    "BulkLabelFactory",
    "DatasetItemFactory",
    "DatasetSnapshotFactory",
    "DecisionFactory",
    "EpisodeFactory",
    "ErasedNameFactory",
    "ErasureFactory",
    "EvaluationFactory",
    "ExperimentFactory",
    "ExportJobFactory",
    "ExposureFactory",
    "FailedRequestFactory",
    "FeedbackFactory",
    "GateVerdictFactory",
    "InvitationFactory",
    "ItemFactory",
    "JobFactory",
    "KeptAnswerFactory",
    "LabelFactory",
    "LabelQueueFactory",
    "LabelSuggestionFactory",
    "MeasurementDueFactory",
    "MembershipFactory",
    "ModelVersionFactory",
    "ObservationFactory",
    "OutboxFactory",
    "PhaseFactory",
    "ProjectFactory",
    "QueueItemFactory",
    "RegisteredModelFactory",
    "RehearsalFactory",
    "ReservationFactory",
    "RewardDraftFactory",
    "RewardDueFactory",
    "RewardFactory",
    "RewardProgressFactory",
    "RewardSpecFactory",
    "RunEventFactory",
    "RunMetricFactory",
    "SkipFactory",
    "StatusChangeFactory",
    "StepFactory",
    "TraceClassifierFactory",
    "TrainingRunFactory",
    "UserFactory",
    "VariantFactory",
    "WorkspaceFactory",
    "put_files",
    "put_rows",
    "uuid7",
    "uuid7_at",
]
