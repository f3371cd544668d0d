"""Factories of the ledger."""

from __future__ import annotations

import datetime as dt
import secrets
import uuid
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from decisions.models import (
    Agent,
    AgentVersion,
    ArmSetup,
    AutoLabeler,
    BulkLabel,
    Decision,
    Episode,
    ErasedName,
    Feedback,
    Item,
    JudgeCalibration,
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
    TraceClassifier,
    Verdict,
)
from tools.factories.jobs import JobFactory
from tools.factories.models_registry import RegisteredModelFactory, VariantFactory
from tools.factories.workspaces import UserFactory, WorkspaceFactory
from workspaces.storage.ids import uuid7, uuid7_bound

OPTIONS = ("finance", "travel", "health")
DRAFTED = {
    "components": [{"name": "verdict", "weight": 2.0, "parameters": {}, "window_days": None, "missing": None}],
    "clamp": 5.0,
    "low": -2.0,
    "high": 2.0,
    "unknown": "left_out",
    "credit": "equal",
    "discount": 1.0,
    "signal": "verdict",
    "training_low": -1.0,
    "training_high": 2.0,
    "judges": None,
}
"""What a draft of a reward spec says."""


def uuid7_at(moment: dt.datetime) -> uuid.UUID:
    """A fresh uuid7 whose time is `moment`: for decisions that were made in the past."""
    start = uuid7_bound(moment).int
    return uuid.UUID(int=start | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62))


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


class ArmSetupFactory(DjangoModelFactory[ArmSetup]):
    class Meta:
        model = ArmSetup

    agent_version = factory.SubFactory(AgentVersionFactory)
    workspace = factory.SelfAttribute("agent_version.workspace")
    variant = factory.LazyAttribute(
        lambda o: VariantFactory(
            experiment__registered_model=o.agent_version.agent.registered_model, setup=str(o.agent_version)
        )
    )


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
    """An item that was TODO is done; nothing has been applied yet."""

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
    """With the feedback that says the same. Of an episode: `decision=None, episode=…, workspace=…`."""

    class Meta:
        model = Label
        skip_postgeneration_save = True

    decision = factory.SubFactory(DecisionFactory)
    workspace = factory.SelfAttribute("decision.workspace")
    reviewer = factory.SubFactory(UserFactory)
    verdict = Verdict.CONFIRMED

    @factory.post_generation
    def fed_back(self, create: bool, extracted: Any, **more: Any) -> None:
        target = {"decision": self.decision, "episode": self.episode, "workspace": self.workspace}
        FeedbackFactory(**target, value=str(self.verdict), idempotency_key=f"label:{self.id}")


class BulkLabelFactory(DjangoModelFactory[BulkLabel]):
    """Whose one label was undone."""

    class Meta:
        model = BulkLabel

    workspace = factory.SubFactory(WorkspaceFactory)
    reviewer = factory.SubFactory(UserFactory)
    verdict = Verdict.CONFIRMED
    matching = 1
    chosen = 1
    done = 1
    labelled = 1
    undone_at = factory.LazyFunction(timezone.now)


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
    """Without places; give `queue=` and a decision of its workspace, or `decision=None, episode=…`."""

    class Meta:
        model = QueueItem

    queue = factory.SubFactory(LabelQueueFactory)
    workspace = factory.SelfAttribute("queue.workspace")
    decision = factory.SubFactory(DecisionFactory, agent__workspace=factory.SelfAttribute("...queue.workspace"))


class ReservationFactory(DjangoModelFactory[Reservation]):
    """A free place."""

    class Meta:
        model = Reservation

    item = factory.SubFactory(QueueItemFactory)
    queue = factory.SelfAttribute("item.queue")
    workspace = factory.SelfAttribute("item.workspace")
    subject = factory.LazyAttribute(lambda o: o.item.subject_id)
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


def _interval(mean: float, reach: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "n": 160, "clusters": 80}


class JudgeCalibrationFactory(DjangoModelFactory[JudgeCalibration]):
    """A judge with too few labels; `calibrated=True`: one that may be used."""

    class Meta:
        model = JudgeCalibration

    class Params:
        calibrated = factory.Trait(
            verdict="calibrated",
            reasons=[],
            scores=400,
            labels=160,
            assessment={
                "scores": 400,
                "labels": 160,
                "units": 80,
                "tuning": 0.9,
                **{name: _interval(0.5, 0.04) for name in ("corrected", "labels_only", "judged")},
                "alpha": _interval(0.81, 0.06),
                "bias": _interval(0.0, 0.03),
                "selected": _interval(0.0, 0.05),
                "by_length": None,
                "by_place": None,
                "by_slice": [],
            },
        )

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    metric = "helpful"
    source = "llm"
    people_metric = "verdict"
    verdict = "refused"
    since = factory.LazyAttribute(lambda row: row.until - dt.timedelta(days=90))
    until = factory.LazyFunction(timezone.now)
    scores = 40
    labels = 4
    reasons = factory.LazyFunction(lambda: ["4 scored decisions have a label, 100 are needed."])
    made_by = "system"


class TraceClassifierFactory(DjangoModelFactory[TraceClassifier]):
    class Meta:
        model = TraceClassifier

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    version = 1
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
