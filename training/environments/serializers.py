"""Serializers of environments and of what is drawn there."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from training.environments.drawing import LONGEST_NAME, TaskQuestion
from training.environments.listed import ExampleTask, KnownEnvironment
from workspaces.http.bodies import StrictBody

_BY_DEFAULT = TaskQuestion(environment="")


class ExampleTaskSerializer(serializers.Serializer[ExampleTask]):
    id = serializers.CharField(source="task.id")
    text = serializers.CharField(source="task.text", help_text="The text that the agent reads first")
    domain = serializers.CharField(source="task.domain")
    template = serializers.CharField(source="task.template", help_text="Name shared by tasks that were made alike")
    level = serializers.IntegerField(source="task.level", help_text="1 is easy, 3 is hard")
    observation = serializers.CharField(help_text="What the agent reads at the beginning")
    actions = serializers.ListField(child=serializers.CharField(), help_text="What the agent may do first")


class EnvironmentSerializer(serializers.Serializer[KnownEnvironment]):
    name = serializers.CharField()
    does = serializers.CharField()
    max_steps = serializers.IntegerField(help_text="Maximum number of actions in an episode")
    most_reward = serializers.FloatField(help_text="Largest possible sum of an episode's rewards")
    package = serializers.CharField(
        allow_null=True, help_text="Package that it comes from; null for a built-in environment"
    )
    has_demonstrations = serializers.BooleanField(help_text="Whether it can demonstrate how its tasks are solved")
    example = ExampleTaskSerializer(allow_null=True)
    fault = serializers.CharField(help_text="Why it cannot be used here; empty if it can")


class EnvironmentListSerializer(serializers.Serializer[Any]):
    results = EnvironmentSerializer(many=True)


class DrawTasksSerializer(StrictBody):
    """Numbers out of range are refused together with an unknown environment."""

    agent = serializers.SlugField(help_text="The agent whose model learns from the tasks")
    name = serializers.CharField(max_length=LONGEST_NAME)
    tasks = serializers.IntegerField(default=_BY_DEFAULT.tasks, help_text="Tasks to learn from")
    first = serializers.IntegerField(default=_BY_DEFAULT.first, help_text="Number of the first task")
    held_out = serializers.IntegerField(
        default=_BY_DEFAULT.held_out, help_text="Tasks of the held-out split, to measure on; 0: none"
    )
    demonstrations = serializers.IntegerField(
        default=_BY_DEFAULT.demonstrations,
        help_text="Number of further tasks that are demonstrated, as labelled rows for a first model",
    )
    wrong = serializers.FloatField(
        default=_BY_DEFAULT.wrong, help_text="Share of the demonstrated steps that are random, 0 to 1"
    )
