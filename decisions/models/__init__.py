"""Tables of the ledger: agents, decisions, feedback, labels, their queues, rewards, steps, episodes, items, shadows."""

from decisions.models.agent import CHATTING, EXPLORING, ActionSpaceKind, Agent, AgentKind, AgentVersion, ArmSetup
from decisions.models.bulk_label import BulkLabel
from decisions.models.decision import Decision
from decisions.models.episode import Episode
from decisions.models.erased_name import ErasedName
from decisions.models.feedback import Feedback, FeedbackSource, Label, Skip, Verdict
from decisions.models.item import Item, ItemOutcome, Project, StatusChange
from decisions.models.judge import JudgeCalibration, JudgeSource, JudgeVerdict
from decisions.models.labelling import (
    ItemState,
    LabelQueue,
    QueueItem,
    QueueState,
    QueueStrategy,
    QueueSubject,
    Reservation,
    SkipPolicy,
)
from decisions.models.reward import (
    CreditScheme,
    MeasurementDue,
    Reward,
    RewardDue,
    RewardProgress,
    RewardSpec,
    UnknownParts,
)
from decisions.models.reward_draft import RewardDraft
from decisions.models.shadow import Shadow, ShadowAnswer, ShadowPoint, ShadowState, ShadowThen
from decisions.models.step import Step, StepKind
from decisions.models.suggestion import AutoLabeler, LabelSuggestion, Suggested
from decisions.models.trace_classifier import TraceClassifier

__all__ = [
    "CHATTING",
    "EXPLORING",
    "ActionSpaceKind",
    "Agent",
    "AgentKind",
    "AgentVersion",
    "ArmSetup",
    "AutoLabeler",
    "BulkLabel",
    "CreditScheme",
    "Decision",
    "Episode",
    "ErasedName",
    "Feedback",
    "FeedbackSource",
    "Item",
    "ItemOutcome",
    "ItemState",
    "JudgeCalibration",
    "JudgeSource",
    "JudgeVerdict",
    "Label",
    "LabelQueue",
    "LabelSuggestion",
    "MeasurementDue",
    "Project",
    "QueueItem",
    "QueueState",
    "QueueStrategy",
    "QueueSubject",
    "Reservation",
    "Reward",
    "RewardDraft",
    "RewardDue",
    "RewardProgress",
    "RewardSpec",
    "Shadow",
    "ShadowAnswer",
    "ShadowPoint",
    "ShadowState",
    "ShadowThen",
    "Skip",
    "SkipPolicy",
    "StatusChange",
    "Step",
    "StepKind",
    "Suggested",
    "TraceClassifier",
    "UnknownParts",
    "Verdict",
]
