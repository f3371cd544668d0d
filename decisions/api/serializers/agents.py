"""Serializers of agents."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from decisions.agents.caching import LONGEST_SECONDS
from decisions.agents.kinds import FIVE
from decisions.models import CHATTING, ActionSpaceKind, Agent, AgentKind, AgentVersion
from workspaces.http.bodies import StrictBody, any_of
from workspaces.http.openapi import FaultSerializer


class AgentVersionSerializer(serializers.ModelSerializer[AgentVersion]):
    class Meta:
        model = AgentVersion
        fields = [
            "id",
            "number",
            "action_space",
            "options",
            "action_schema",
            "state_schema",
            "system_prompt",
            "prompt_template",
            "max_prompt_tokens",
            "max_completion_tokens",
            "temperature",
            "epsilon",
            "exploration_budget",
            "created_at",
        ]


class AgentSerializer(serializers.ModelSerializer[Agent]):
    version = serializers.SerializerMethodField()
    newest_version = serializers.SerializerMethodField()

    class Meta:
        model = Agent
        fields = ["id", "slug", "name", "kind", "unit", "version", "newest_version", "cache_seconds", "created_at"]

    def get_version(self, agent: Agent) -> int | None:
        """Number of the current version, which acts."""
        numbers = {version.id: version.number for version in agent.versions.all()}
        return numbers[agent.current_version_id] if agent.current_version_id else max(numbers.values(), default=None)

    def get_newest_version(self, agent: Agent) -> int | None:
        """Number of the newest version, which need not act."""
        return max((version.number for version in agent.versions.all()), default=None)


class AgentCreateSerializer(StrictBody):
    together = {
        "anyOf": [
            {"required": ["prompt_template"]},
            {"properties": {"kind": any_of(*FIVE)}, "required": ["kind"]},
            {"properties": {"action_space": any_of(*sorted(CHATTING))}, "required": ["action_space"]},
        ]
    }
    slug = serializers.SlugField(max_length=63)
    name = serializers.CharField(max_length=200)
    kind = serializers.ChoiceField(choices=AgentKind.choices, default="CUSTOM")
    unit = serializers.CharField(max_length=32, required=False, help_text="Default: the unit of the kind, user or item")
    prompt_template = serializers.CharField(
        required=False,
        help_text="May use fields of the state: {{ title }}. Without it, the agent gets the setup of its kind, and a "
        "custom one of text or tool calls the template {{ input }}. A state with a chat is asked as it is, without it",
    )
    system_prompt = serializers.CharField(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Instructions that the model reads before the prompt, in serving, training and exports. Empty: none. "
        "Its tokens count towards max_prompt_tokens",
    )
    action_space = serializers.ChoiceField(choices=ActionSpaceKind.choices, required=False)
    options = serializers.ListField(child=serializers.CharField(max_length=200), required=False, allow_null=True)
    action_schema = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="JSON Schema of a structured action. For text and tool calls, its properties are the tools, each "
        "with the schema of its arguments",
    )
    state_schema = serializers.DictField(required=False, allow_null=True)
    max_prompt_tokens = serializers.IntegerField(
        min_value=4,
        max_value=131_072,
        required=False,
        allow_null=True,
        help_text="Default, and null: no limit for text and tool_calls, else 64",
    )
    max_completion_tokens = serializers.IntegerField(
        min_value=1,
        max_value=32_768,
        required=False,
        allow_null=True,
        help_text="Default, and null: no limit for text and tool_calls, else 16",
    )
    temperature = serializers.FloatField(required=False)
    epsilon = serializers.FloatField(required=False)
    exploration_budget = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="Above 0, up to 1000: the most right decisions of 1,000 that exploration is expected to give up, by "
        "the model's own probabilities. Null: any number",
    )


class AgentCacheSerializer(StrictBody):
    seconds = serializers.IntegerField(
        min_value=0,
        max_value=LONGEST_SECONDS,
        help_text="How long a greedy answer to a chat or a problem is reused; 0 turns this off. An agent that "
        "neither chats nor takes options with each decision accepts only 0",
    )


class AgentDetailSerializer(AgentSerializer):
    """With the current version in full; the view gives it as `current`, and the `champion`, in the context."""

    current = serializers.SerializerMethodField(help_text="The version in use. New decisions belong to it")
    champion = serializers.SerializerMethodField(help_text="The model version that answers, such as filer:2")

    class Meta(AgentSerializer.Meta):
        fields = [*AgentSerializer.Meta.fields, "champion", "current"]

    @extend_schema_field(AgentVersionSerializer(allow_null=True))
    def get_current(self, agent: Agent) -> Any:
        current: AgentVersion | None = self.context["current"]
        return AgentVersionSerializer(current).data if current is not None else None

    def get_champion(self, agent: Agent) -> str | None:
        champion = self.context["champion"]
        return str(champion) if champion is not None else None


class AgentPatchSerializer(AgentCreateSerializer):
    """Fields of the next version; what is left out stays as it is."""

    together = {}
    slug = None  # type: ignore[assignment]
    name = None  # type: ignore[assignment]
    kind = None  # type: ignore[assignment]
    unit = None  # type: ignore[assignment]
    expected_version = serializers.IntegerField(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="Number of the version that the change is based on; or send it as If-Match",
    )
    acts = serializers.BooleanField(
        default=True, help_text="False: the version is created but not used. An experiment can try it"
    )
    # As it is: what was read and is sent back is no change.
    prompt_template = serializers.CharField(
        required=False, trim_whitespace=False, help_text="May use fields of the state: {{ title }}"
    )


class AnswerSerializer(serializers.Serializer[Any]):
    decision_id = serializers.UUIDField()
    action = serializers.JSONField(
        help_text="The chosen option; for other kinds, the object, the text, or the list of options or tool calls"
    )
    probabilities = serializers.DictField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Of each option under the acting policy, after temperature and exploration; for a ranking, of the "
        "first place. Options of a structured action are canonical JSON. Null for a written action",
    )
    propensity = serializers.FloatField(
        allow_null=True, help_text="Of the action; for a ranking, of its order. Null for a written action"
    )
    confidence = serializers.FloatField(
        allow_null=True,
        help_text="The model's own probability of the action; for a ranking, of its first item; for a written action, "
        "the confidence that it states. Null if its server gives none",
    )
    logprob = serializers.FloatField(
        allow_null=True,
        help_text="Log-probability of a written action, summed over its tokens. Null if the server gives none",
    )
    model_version = serializers.CharField()
    variant = serializers.CharField(allow_null=True)
    assignment_probability = serializers.FloatField(allow_null=True)
    fallback = serializers.BooleanField(help_text="True if the control answered because the treatment could not")


class AnswersSerializer(serializers.Serializer[Any]):
    answers = AnswerSerializer(many=True)


class AnswerFaultSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    fields = FaultSerializer(many=True)  # type: ignore[assignment]


class FailedAnswerSerializer(serializers.Serializer[Any]):
    error = AnswerFaultSerializer()


class PartialAnswersSerializer(serializers.Serializer[Any]):
    answers = serializers.ListField(
        child=serializers.DictField(), help_text="In the order of the items: an answer, or an `error` of the item alone"
    )


ONE_OR_MORE_ANSWERS = PolymorphicProxySerializer(
    component_name="OneOrMoreAnswers", serializers=[AnswerSerializer, AnswersSerializer], resource_type_field_name=None
)
"""One object is answered by one answer, a list by all of them in its order."""
