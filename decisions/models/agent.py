"""Agents and their immutable versions: action space, prompt, exploration."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class AgentKind(models.TextChoices):
    FILER = "FILER", "Filer"
    LIBRARIAN = "LIBRARIAN", "Librarian"
    PRIORITIZER = "PRIORITIZER", "Prioritizer"
    STORER = "STORER", "Storer"
    RETRIEVER = "RETRIEVER", "Retriever"
    GUARDRAIL = "GUARDRAIL", "Guardrail"
    CUSTOM = "CUSTOM", "Custom"


class ActionSpaceKind(models.TextChoices):
    CHOICE = "choice", "One of the options"
    RANKING = "ranking", "An order of the options"
    STRUCTURED = "structured", "An object of a JSON schema"
    TEXT = "text", "Free text"
    TOOL_CALLS = "tool_calls", "Tool calls"


CHATTING = frozenset({ActionSpaceKind.TEXT, ActionSpaceKind.TOOL_CALLS})
"""Agents that may be asked by chats, and answer in words or call tools (`decisions.agents.chat_actions`)."""

EXPLORING = frozenset({ActionSpaceKind.CHOICE, ActionSpaceKind.RANKING})
"""Agents of which a share of the decisions is drawn evenly from their options."""


class Agent(WorkspaceOwned):
    """`unit` says what an experiment sticks to: user, item, project, …

    `current_version` is the version that acts; null for the newest one. So it only points at one while there are newer
    versions that do not act, to be tried by an experiment (docs/adr/0037). `agents.current` reads it.

    `cache_seconds`: for how long a greedy answer of a chat, or a greedy solution, is given again; 0 for never.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=AgentKind.choices, default=AgentKind.CUSTOM)
    unit = models.CharField(max_length=32, default="item")
    registered_model = models.ForeignKey(
        "models_registry.RegisteredModel", on_delete=models.PROTECT, related_name="agents", null=True, blank=True
    )
    # DO_NOTHING: the database sees to it, at the end of the transaction, that it is a version of the agent's own.
    current_version = models.ForeignKey(
        "decisions.AgentVersion", on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_index=False
    )
    cache_seconds = models.PositiveIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slug"], name="agent_once"),
            models.CheckConstraint(condition=Q(cache_seconds__lte=30 * 86_400), name="agent_cache_a_month_at_most"),
            models.CheckConstraint(condition=Q(kind__in=AgentKind.values), name="agent_kind_known"),
        ]

    def __str__(self) -> str:
        return self.name


class AgentVersion(WorkspaceOwned):
    """Immutable (a trigger refuses UPDATE): an editable template would make logged prompts and propensities
    unreproducible. `options` is null where each decision brings its own. `state_schema`, where there is one, says what
    a state must hold; `action_schema` is for structured actions. `system_prompt` is what a model is told before the
    prompt, "" where that is nothing (docs/adr/0036-the-system-prompt-belongs-to-the-version.md). Agents that chat may
    have no limits of tokens (null): a prompt may be as long as the model reads, an answer as long as it writes.

    The acting policy is p^(1/`temperature`) over the options, mixed with `epsilon` of the uniform.
    `exploration_budget`: the most right decisions of 1,000 that this is expected to give up, by the model's own
    probabilities; None: any.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    action_space = models.CharField(max_length=16, choices=ActionSpaceKind.choices, default=ActionSpaceKind.CHOICE)
    options = models.JSONField(null=True, blank=True)
    action_schema = models.JSONField(null=True, blank=True)
    state_schema = models.JSONField(null=True, blank=True)
    system_prompt = models.TextField(blank=True, default="", db_default="")
    prompt_template = models.TextField()
    max_prompt_tokens = models.PositiveIntegerField(default=64, null=True, blank=True)
    max_completion_tokens = models.PositiveIntegerField(default=16, null=True, blank=True)
    temperature = models.FloatField(default=1.0)
    epsilon = models.FloatField(default=0.05)
    exploration_budget = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="agent_version_number_once"),
            # What an agent's current version refers to.
            models.UniqueConstraint(fields=["id", "agent"], name="agent_version_of_its_agent"),
            models.CheckConstraint(
                condition=Q(action_space__in=ActionSpaceKind.values), name="agent_version_action_space_known"
            ),
            models.CheckConstraint(
                condition=Q(action_space__in=["text", "tool_calls"])
                | Q(max_prompt_tokens__isnull=False, max_completion_tokens__isnull=False),
                name="agent_version_limits_unless_it_chats",
            ),
            models.CheckConstraint(condition=Q(temperature__gt=0), name="agent_version_temperature_positive"),
            models.CheckConstraint(condition=Q(epsilon__gte=0, epsilon__lte=1), name="agent_version_epsilon_a_share"),
            models.CheckConstraint(
                condition=Q(exploration_budget__isnull=True)
                | Q(exploration_budget__gt=0, exploration_budget__lte=1000),
                name="agent_version_budget_of_a_thousand",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent.slug} v{self.number}"

    @property
    def explores(self) -> bool:
        return self.action_space in EXPLORING

    @property
    def acting(self) -> dict[str, float]:
        """What makes the acting policy of the model's probabilities, by name; no budget where there is none."""
        budget = self.exploration_budget
        bound = {} if budget is None else {"exploration_budget": budget}
        return {"temperature": self.temperature, "epsilon": self.epsilon, **bound}

    @property
    def chats(self) -> bool:
        return self.action_space in CHATTING


class ArmSetup(WorkspaceOwned):
    """The version of an agent that an arm of an experiment acts with, from its start to its end. Both variants of such
    an experiment have one, and those of others none."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    variant = models.OneToOneField("models_registry.Variant", on_delete=models.CASCADE, related_name="arm_setup")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="arms")

    def __str__(self) -> str:
        return f"{self.variant.arm}: {self.agent_version}"
