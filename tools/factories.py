"""One factory a model. Rows that satisfy every constraint; tests override what they are about.

What belongs together shares its workspace: give `workspace=` (or the parent row) once and the rest follows.
`MODEL_FACTORIES` at the end maps every model of the project to its factory; a test asserts that none is missing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from decisions.models import (
    Agent,
    AgentVersion,
    AutoLabeler,
    Decision,
    Episode,
    ErasedName,
    Feedback,
    Item,
    Label,
    LabelQueue,
    LabelSuggestion,
    MeasurementDue,
    Project,
    QueueItem,
    Reservation,
    Reward,
    RewardDraft,
    RewardDue,
    RewardProgress,
    RewardSpec,
    Skip,
    StatusChange,
    Step,
    Verdict,
)
from jobs.models import Job, Outbox
from models_registry import artifacts
from models_registry.models import (
    Alias,
    AliasName,
    Arm,
    Artifact,
    ArtifactKind,
    Experiment,
    Exposure,
    FailedRequest,
    GateVerdict,
    ModelVersion,
    Observation,
    Phase,
    RegisteredModel,
    Variant,
)
from training.models import (
    DatasetItem,
    DatasetKind,
    DatasetSnapshot,
    Erasure,
    Evaluation,
    ExportJob,
    Rehearsal,
    RunEvent,
    RunMetric,
    TrainingRun,
)
from training.rehearsal.plan import Plan
from workspaces.ids import uuid7, uuid7_bound
from workspaces.models import (
    ApiKey,
    AuditEntry,
    Invitation,
    KeptAnswer,
    Membership,
    Role,
    Scope,
    User,
    Workspace,
)

PASSWORD = "correct horse battery staple"
OPTIONS = ("finance", "travel", "health")
IMPORT_PAYLOAD = {"what": "labelled", "file": "rows.jsonl", "upload": "01a1f9b2-7a31-7d4e-b0c2-5e8f17a6c904"}
"""Of a job that imports a file, which is not there."""
DRAFTED = {
    "components": [{"name": "verdict", "weight": 2.0, "parameters": {}, "window_days": None, "missing": None}],
    "clamp": 5.0,
    "low": -2.0,
    "high": 2.0,
    "credit": "equal",
    "discount": 1.0,
    "signal": "verdict",
    "training_low": -1.0,
    "training_high": 2.0,
}
"""What a draft of a reward spec says."""
INTERVAL = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 10, "clusters": 10}


def uuid7_at(moment: dt.datetime) -> uuid.UUID:
    """A fresh uuid7 whose time is `moment`: for decisions that were made in the past."""
    start = uuid7_bound(moment).int
    return uuid.UUID(int=start | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62))


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


def put_rows(rows: Sequence[Mapping[str, Any]]) -> artifacts.StoredArtifact:
    """A dataset's rows.jsonl as an artifact of the store."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return put_files({"rows.jsonl": lines}, kind=ArtifactKind.DATASET)


class WorkspaceFactory(DjangoModelFactory[Workspace]):
    class Meta:
        model = Workspace

    slug = factory.Sequence(lambda n: f"workspace-{n}")
    name = factory.LazyAttribute(lambda o: o.slug.replace("-", " ").title())


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    email = factory.Sequence(lambda n: f"person{n}@example.org")
    name = factory.Sequence(lambda n: f"Person {n}")

    @classmethod
    def _create(cls, model_class: type[User], *args: Any, **kwargs: Any) -> User:
        password = kwargs.pop("password", PASSWORD)
        return model_class.objects.create_user(kwargs.pop("email"), password, **kwargs)


class MembershipFactory(DjangoModelFactory[Membership]):
    class Meta:
        model = Membership

    workspace = factory.SubFactory(WorkspaceFactory)
    user = factory.SubFactory(UserFactory)
    role = Role.ADMIN


class InvitationFactory(DjangoModelFactory[Invitation]):
    """An open one, whose link nobody knows."""

    class Meta:
        model = Invitation

    workspace = factory.SubFactory(WorkspaceFactory)
    email = factory.Sequence(lambda n: f"invited{n}@example.org")
    role = Role.LABELLER
    token_hmac = factory.LazyFunction(lambda: secrets.token_bytes(32))
    expires_at = factory.LazyFunction(lambda: timezone.now() + dt.timedelta(days=7))


class ApiKeyFactory(DjangoModelFactory[ApiKey]):
    """A row whose secret nobody knows; the fixture `api` makes keys that can be used."""

    class Meta:
        model = ApiKey

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"key {n}")
    prefix = factory.LazyFunction(lambda: secrets.token_hex(6))
    secret_hmac = factory.LazyFunction(lambda: secrets.token_bytes(32))
    scopes = factory.LazyFunction(lambda: [Scope.EXPORT_READ.value])


class KeptAnswerFactory(DjangoModelFactory[KeptAnswer]):
    class Meta:
        model = KeptAnswer

    workspace = factory.SubFactory(WorkspaceFactory)
    sender = "key:0123456789ab"
    key = factory.Sequence(lambda n: f"request-{n}")
    request_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))
    status = 201
    body = b"{}"
    created_at = factory.LazyFunction(timezone.now)


class AuditEntryFactory(DjangoModelFactory[AuditEntry]):
    class Meta:
        model = AuditEntry

    workspace = factory.SubFactory(WorkspaceFactory)
    actor = "system"
    action = "test.happened"
    target = "test:1"


class JobFactory(DjangoModelFactory[Job]):
    class Meta:
        model = Job

    kind = "tests.nothing"


class OutboxFactory(DjangoModelFactory[Outbox]):
    class Meta:
        model = Outbox

    job = factory.SubFactory(JobFactory)


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


class AgentFactory(DjangoModelFactory[Agent]):
    """An agent with its model; versions and reward specs are rows of their own (or the fixture `agent`)."""

    class Meta:
        model = Agent

    workspace = factory.SubFactory(WorkspaceFactory)
    slug = factory.Sequence(lambda n: f"agent-{n}")
    name = factory.LazyAttribute(lambda o: o.slug.replace("-", " ").title())
    registered_model = factory.SubFactory(
        RegisteredModelFactory, workspace=factory.SelfAttribute("..workspace"), name=factory.SelfAttribute("..slug")
    )


class AgentVersionFactory(DjangoModelFactory[AgentVersion]):
    class Meta:
        model = AgentVersion

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    number = factory.LazyAttribute(lambda o: o.agent.versions.count() + 1)
    options = factory.LazyFunction(lambda: list(OPTIONS))
    prompt_template = "{{ text }}"


class RewardSpecFactory(DjangoModelFactory[RewardSpec]):
    class Meta:
        model = RewardSpec

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    number = factory.LazyAttribute(lambda o: o.agent.reward_specs.count() + 1)
    components = factory.LazyFunction(lambda: [{"name": "verdict", "weight": 1.0, "parameters": {}}])
    spec_hash = factory.LazyFunction(lambda: secrets.token_hex(32))


class RewardDraftFactory(DjangoModelFactory[RewardDraft]):
    """The verdict at twice the weight, not valued yet."""

    class Meta:
        model = RewardDraft

    id = factory.LazyFunction(uuid7)
    base = factory.SubFactory(RewardSpecFactory)
    agent = factory.SelfAttribute("base.agent")
    workspace = factory.SelfAttribute("base.workspace")
    content = factory.LazyFunction(lambda: dict(DRAFTED))
    made_by = "system"
    job = factory.LazyAttribute(
        lambda o: JobFactory(workspace=o.workspace, kind="decisions.try_reward_draft", payload={"draft_id": str(o.id)})
    )


class EpisodeFactory(DjangoModelFactory[Episode]):
    class Meta:
        model = Episode

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    external_id = factory.Sequence(lambda n: f"episode-{n}")
    started_at = factory.LazyFunction(timezone.now)


class DecisionFactory(DjangoModelFactory[Decision]):
    """Made by an outside policy at random among OPTIONS. Give `agent=` to reuse an agent's newest version."""

    class Meta:
        model = Decision

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    agent_version = factory.LazyAttribute(lambda o: o.agent.versions.first() or AgentVersionFactory(agent=o.agent))
    state = factory.Sequence(lambda n: {"text": f"note {n}"})
    options = factory.LazyFunction(lambda: list(OPTIONS))
    action = OPTIONS[0]
    propensity = 0.5
    confidence = 0.5
    policy_name = "outside"
    observed_at = factory.LazyFunction(timezone.now)
    recorded_at = factory.SelfAttribute("observed_at")
    content_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))


class ProjectFactory(DjangoModelFactory[Project]):
    class Meta:
        model = Project

    workspace = factory.SubFactory(WorkspaceFactory)
    ref = factory.Sequence(lambda n: f"opus-{n}")
    name = factory.LazyAttribute(lambda o: o.ref.replace("-", " ").title())


class ErasedNameFactory(DjangoModelFactory[ErasedName]):
    class Meta:
        model = ErasedName

    workspace = factory.SubFactory(WorkspaceFactory)
    id = factory.LazyFunction(uuid.uuid4)


class ItemFactory(DjangoModelFactory[Item]):
    class Meta:
        model = Item

    workspace = factory.SubFactory(WorkspaceFactory)
    ref = factory.Sequence(lambda n: f"item-{n}")
    title = factory.LazyAttribute(lambda o: o.ref.replace("-", " ").title())
    status = "TODO"


class StatusChangeFactory(DjangoModelFactory[StatusChange]):
    """An item that was TODO is done; nothing has been spread yet."""

    class Meta:
        model = StatusChange

    item = factory.SubFactory(ItemFactory)
    workspace = factory.SelfAttribute("item.workspace")
    from_status = "TODO"
    to_status = "DONE"
    outcome = "DONE"
    observed_at = factory.LazyFunction(timezone.now)
    recorded_at = factory.SelfAttribute("observed_at")
    content_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))


class StepFactory(DjangoModelFactory[Step]):
    """A tool call of an episode of its own; give `decision=` as well, or `episode=None, workspace=…` instead."""

    class Meta:
        model = Step

    episode = factory.SubFactory(EpisodeFactory)
    workspace = factory.SelfAttribute("episode.workspace")
    kind = "tool_call"
    name = "search"
    arguments = factory.LazyFunction(lambda: {"query": "x"})
    success = True
    started_at = factory.LazyFunction(timezone.now)
    recorded_at = factory.SelfAttribute("started_at")
    content_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))


class FeedbackFactory(DjangoModelFactory[Feedback]):
    class Meta:
        model = Feedback

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    metric = "verdict"
    value = Verdict.CONFIRMED.value
    source = "human"
    observed_at = factory.LazyFunction(timezone.now)
    recorded_at = factory.SelfAttribute("observed_at")
    content_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))


class LabelFactory(DjangoModelFactory[Label]):
    """With the feedback that says the same."""

    class Meta:
        model = Label
        skip_postgeneration_save = True

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    reviewer = factory.SubFactory(UserFactory)
    verdict = Verdict.CONFIRMED

    @factory.post_generation
    def fed_back(self, create: bool, extracted: Any, **more: Any) -> None:
        FeedbackFactory(decision=self.decision, value=str(self.verdict), idempotency_key=f"label:{self.id}")


class SkipFactory(DjangoModelFactory[Skip]):
    class Meta:
        model = Skip

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    reviewer = factory.SubFactory(UserFactory)


class LabelQueueFactory(DjangoModelFactory[LabelQueue]):
    class Meta:
        model = LabelQueue

    workspace = factory.SubFactory(WorkspaceFactory)
    slug = factory.Sequence(lambda n: f"queue-{n}")
    name = factory.LazyAttribute(lambda o: o.slug.replace("-", " ").capitalize())


class QueueItemFactory(DjangoModelFactory[QueueItem]):
    """Without places; give `queue=` and a decision of its workspace."""

    class Meta:
        model = QueueItem

    queue = factory.SubFactory(LabelQueueFactory)
    workspace = factory.SelfAttribute("queue.workspace")
    decision = factory.SubFactory(DecisionFactory, agent__workspace=factory.SelfAttribute("...queue.workspace"))
    rank = 0.5


class ReservationFactory(DjangoModelFactory[Reservation]):
    """A free place."""

    class Meta:
        model = Reservation

    item = factory.SubFactory(QueueItemFactory)
    queue = factory.SelfAttribute("item.queue")
    workspace = factory.SelfAttribute("item.workspace")
    decision = factory.SelfAttribute("item.decision")
    place = 1


class RewardFactory(DjangoModelFactory[Reward]):
    class Meta:
        model = Reward

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    spec = factory.LazyAttribute(
        lambda o: o.decision.agent.reward_specs.first() or RewardSpecFactory(agent=o.decision.agent)
    )
    version = 1
    value = 0.75
    raw = 1.0
    components = factory.LazyFunction(lambda: {"verdict": {"value": 1.0}})
    feedback_until = factory.LazyFunction(timezone.now)
    computed_at = factory.LazyFunction(timezone.now)


class RewardProgressFactory(DjangoModelFactory[RewardProgress]):
    class Meta:
        model = RewardProgress

    spec = factory.SubFactory(RewardSpecFactory)
    workspace = factory.SelfAttribute("spec.workspace")
    searched_until = factory.LazyFunction(timezone.now)


class RewardDueFactory(DjangoModelFactory[RewardDue]):
    class Meta:
        model = RewardDue

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    spec = factory.SubFactory(RewardSpecFactory, agent=factory.SelfAttribute("..decision.agent"))


class MeasurementDueFactory(DjangoModelFactory[MeasurementDue]):
    class Meta:
        model = MeasurementDue

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    component = "trace.code_execution"


class AutoLabelerFactory(DjangoModelFactory[AutoLabeler]):
    class Meta:
        model = AutoLabeler

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    trained_at = factory.LazyFunction(timezone.now)


class LabelSuggestionFactory(DjangoModelFactory[LabelSuggestion]):
    class Meta:
        model = LabelSuggestion

    decision = factory.SubFactory(DecisionFactory)
    agent = factory.SelfAttribute("decision.agent")
    workspace = factory.SelfAttribute("decision.workspace")
    action = OPTIONS[1]
    confidence = 0.97
    made_at = factory.LazyFunction(timezone.now)


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


MODEL_FACTORIES: dict[type[Any], type[DjangoModelFactory[Any]]] = {
    found._meta.model: found  # type: ignore[attr-defined]
    for found in list(globals().values())
    if isinstance(found, type) and issubclass(found, DjangoModelFactory) and found is not DjangoModelFactory
}
__all__ = ["MODEL_FACTORIES", "OPTIONS", "PASSWORD", "put_files", "put_rows", "uuid7", "uuid7_at"]
