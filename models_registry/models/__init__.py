"""Tables of artifacts, models, versions, aliases and experiments."""

from models_registry.models.artifact import Artifact, ArtifactKind
from models_registry.models.experiment import (
    Arm,
    Experiment,
    ExperimentState,
    Exposure,
    FailedRequest,
    GuardrailMeasure,
    MissingPolicy,
    Observation,
    Phase,
    Variant,
)
from models_registry.models.version import (
    Alias,
    AliasName,
    GateKind,
    GateVerdict,
    ModelVersion,
    RegisteredModel,
    VersionState,
)

__all__ = [
    "Alias",
    "AliasName",
    "Arm",
    "Artifact",
    "ArtifactKind",
    "Experiment",
    "ExperimentState",
    "Exposure",
    "FailedRequest",
    "GateKind",
    "GateVerdict",
    "GuardrailMeasure",
    "MissingPolicy",
    "ModelVersion",
    "Observation",
    "Phase",
    "RegisteredModel",
    "Variant",
    "VersionState",
]
