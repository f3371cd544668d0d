"""Factories of artifacts, versions and experiments."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from models_registry.artifacts import opening as artifacts
from models_registry.models import (
    Alias,
    AliasMove,
    AliasName,
    Arm,
    Artifact,
    ArtifactKind,
    Backend,
    BackendKind,
    Call,
    CallKind,
    Deployment,
    Experiment,
    ExperimentGroup,
    Exposure,
    FailedRequest,
    GateVerdict,
    Holdout,
    KeySpend,
    Look,
    LookAction,
    ModelVersion,
    Observation,
    Phase,
    RegisteredModel,
    Variant,
)
from tools.factories.workspaces import ApiKeyFactory, WorkspaceFactory

INTERVAL = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 10, "clusters": 10}


def put_files(
    files: Mapping[str, str], *, kind: str = ArtifactKind.MODEL, meta: Mapping[str, Any] | None = None
) -> artifacts.StoredArtifact:
    """Text files as an artifact of the store, without a row."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return artifacts.put_folder(Path(folder), kind=kind, meta=meta)


class ArtifactFactory(DjangoModelFactory[Artifact]):
    """A row without files; `put_files` and `put_rows` make real ones."""

    class Meta:
        model = Artifact

    workspace = factory.SubFactory(WorkspaceFactory)
    kind = ArtifactKind.MODEL
    digest = factory.LazyFunction(lambda: hashlib.sha256(secrets.token_bytes(16)).hexdigest())
    size_bytes = 1000


class RegisteredModelFactory(DjangoModelFactory[RegisteredModel]):
    class Meta:
        model = RegisteredModel

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"model-{n}")


class ModelVersionFactory(DjangoModelFactory[ModelVersion]):
    class Meta:
        model = ModelVersion

    registered_model = factory.SubFactory(
        RegisteredModelFactory,
        workspace=factory.LazyAttribute(lambda o: o.factory_parent.workspace or WorkspaceFactory()),
    )
    workspace = None
    number = factory.LazyAttribute(lambda o: o.registered_model.versions.count() + 1)
    artifact = factory.SubFactory(
        ArtifactFactory, workspace=factory.LazyAttribute(lambda o: o.factory_parent.registered_model.workspace)
    )
    method = "import"

    @classmethod
    def _adjust_kwargs(cls, **kwargs: Any) -> dict[str, Any]:
        kwargs["workspace"] = kwargs["workspace"] or kwargs["registered_model"].workspace
        return kwargs


class AliasFactory(DjangoModelFactory[Alias]):
    class Meta:
        model = Alias

    version = factory.SubFactory(ModelVersionFactory)
    registered_model = factory.SelfAttribute("version.registered_model")
    workspace = factory.SelfAttribute("version.workspace")
    name = AliasName.CHAMPION


class AliasMoveFactory(DjangoModelFactory[AliasMove]):
    class Meta:
        model = AliasMove

    after = factory.SubFactory(ModelVersionFactory)
    registered_model = factory.SelfAttribute("after.registered_model")
    workspace = factory.SelfAttribute("after.workspace")
    name = AliasName.CHAMPION
    by = "system"


class BackendFactory(DjangoModelFactory[Backend]):
    """An OpenAI-compatible server where none answers."""

    class Meta:
        model = Backend

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"backend-{n}")
    kind = BackendKind.OPENAI
    url = "http://127.0.0.1:9/v1"


class DeploymentFactory(DjangoModelFactory[Deployment]):
    class Meta:
        model = Deployment

    version = factory.SubFactory(ModelVersionFactory)
    backend = factory.SubFactory(BackendFactory, workspace=factory.SelfAttribute("..version.workspace"))
    workspace = factory.SelfAttribute("version.workspace")


class CallFactory(DjangoModelFactory[Call]):
    """One that is being answered."""

    class Meta:
        model = Call

    assigned = factory.SubFactory(ModelVersionFactory)
    registered_model = factory.SelfAttribute("assigned.registered_model")
    workspace = factory.SelfAttribute("assigned.workspace")
    kind = CallKind.DECIDE
    opened_at = factory.LazyFunction(timezone.now)


class KeySpendFactory(DjangoModelFactory[KeySpend]):
    class Meta:
        model = KeySpend

    api_key = factory.SubFactory(ApiKeyFactory)
    workspace = factory.SelfAttribute("api_key.workspace")
    day = factory.LazyFunction(lambda: timezone.now().astimezone(dt.UTC).date())
    spent = 0


class GateVerdictFactory(DjangoModelFactory[GateVerdict]):
    class Meta:
        model = GateVerdict

    version = factory.SubFactory(ModelVersionFactory)
    against = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..version.registered_model")
    )
    workspace = factory.SelfAttribute("version.workspace")
    kind = "held_out"
    passed = True
    estimate = 0.1
    low = 0.05
    high = 0.15


class ExperimentGroupFactory(DjangoModelFactory[ExperimentGroup]):
    """Two versions at the same time; its experiments are made with `group`, `lane_low` and `lane_high`."""

    class Meta:
        model = ExperimentGroup

    registered_model = factory.SubFactory(RegisteredModelFactory)
    workspace = factory.SelfAttribute("registered_model.workspace")
    name = factory.Sequence(lambda n: f"group {n}")
    salt = factory.LazyFunction(lambda: secrets.token_hex(16))


class HoldoutFactory(DjangoModelFactory[Holdout]):
    """A running one, of four weeks."""

    class Meta:
        model = Holdout

    version = factory.SubFactory(ModelVersionFactory)
    registered_model = factory.SelfAttribute("version.registered_model")
    workspace = factory.SelfAttribute("version.workspace")
    share = 0.2
    salt = factory.LazyFunction(lambda: secrets.token_hex(16))
    reason = "what a month is worth"
    started_by = "owner@example.org"
    started_at = factory.LazyFunction(timezone.now)
    ends_at = factory.LazyAttribute(lambda one: one.started_at + dt.timedelta(days=28))


class ExperimentFactory(DjangoModelFactory[Experiment]):
    """A running experiment, without phases and variants; `start_experiment` makes the whole."""

    class Meta:
        model = Experiment

    registered_model = factory.SubFactory(RegisteredModelFactory)
    workspace = factory.SelfAttribute("registered_model.workspace")
    name = factory.Sequence(lambda n: f"experiment {n}")
    salt = factory.LazyFunction(lambda: secrets.token_hex(16))


class PhaseFactory(DjangoModelFactory[Phase]):
    class Meta:
        model = Phase

    experiment = factory.SubFactory(ExperimentFactory)
    workspace = factory.SelfAttribute("experiment.workspace")
    treatment_share = 0.5
    attribution_window_seconds = 60.0


class VariantFactory(DjangoModelFactory[Variant]):
    class Meta:
        model = Variant

    experiment = factory.SubFactory(ExperimentFactory)
    workspace = factory.SelfAttribute("experiment.workspace")
    arm = Arm.CONTROL
    version = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..experiment.registered_model")
    )


class ExposureFactory(DjangoModelFactory[Exposure]):
    class Meta:
        model = Exposure

    phase = factory.SubFactory(PhaseFactory)
    experiment = factory.SelfAttribute("phase.experiment")
    workspace = factory.SelfAttribute("phase.workspace")
    unit = factory.Sequence(lambda n: f"unit-{n}")
    arm = Arm.CONTROL
    served_arm = factory.SelfAttribute("arm")
    assignment_probability = 0.5
    version = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..experiment.registered_model")
    )
    exposed_at = factory.LazyFunction(timezone.now)


class FailedRequestFactory(DjangoModelFactory[FailedRequest]):
    class Meta:
        model = FailedRequest

    exposure = factory.SubFactory(ExposureFactory)
    workspace = factory.SelfAttribute("exposure.workspace")
    failed_at = factory.LazyFunction(timezone.now)


class ObservationFactory(DjangoModelFactory[Observation]):
    class Meta:
        model = Observation

    exposure = factory.SubFactory(ExposureFactory)
    experiment = factory.SelfAttribute("exposure.experiment")
    workspace = factory.SelfAttribute("exposure.workspace")
    unit = factory.SelfAttribute("exposure.unit")
    position = factory.Sequence(lambda n: n + 1)
    outcome = 0.5
    matured_at = factory.LazyFunction(timezone.now)


class LookFactory(DjangoModelFactory[Look]):
    class Meta:
        model = Look

    experiment = factory.SubFactory(ExperimentFactory)
    workspace = factory.SelfAttribute("experiment.workspace")
    action = LookAction.CONTINUE
    reasons = factory.LazyFunction(lambda: ["E⁺ 1 of 40"])
    phase = 1
    treatment_share = 0.5
