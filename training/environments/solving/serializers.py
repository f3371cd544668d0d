"""Answers of the endpoints that solve, and of action quality."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from training.environments.solving.acting import Solution
from training.environments.solving.services import Failure
from workspaces.http.openapi import FaultSerializer


class SolvedStepSerializer(serializers.Serializer[Any]):
    """Of a `training.environments.solving.acting.SolvedStep`."""

    observation = serializers.CharField(help_text="What the agent read before the action")
    action = serializers.CharField()
    probability = serializers.FloatField(
        help_text="Of the action under the policy that acted; 1 for a greedy action, or if only one was valid"
    )
    confidence = serializers.FloatField(allow_null=True, help_text="The model's own probability of the action")
    reward = serializers.FloatField(help_text="What the step earned, in the environment's unit")
    next_observation = serializers.CharField(help_text="What the environment said after the action")
    model_version = serializers.CharField(allow_null=True, help_text="Who decided; null if only one action was valid")
    decision_id = serializers.UUIDField(allow_null=True)
    error = serializers.CharField(allow_null=True, help_text="Why the environment refused the action")


class SolutionSerializer(serializers.Serializer[Any]):
    environment = serializers.CharField()
    problem = serializers.CharField(help_text="The problem as the agent read it")
    task = serializers.CharField(help_text="The task's id, which is the decisions' item_ref")
    success = serializers.BooleanField(help_text="Whether the task is solved")
    score = serializers.FloatField(help_text="The share of the task that is done, in [0, 1]")
    total_reward = serializers.FloatField(help_text="Sum of what the steps earned, in the environment's unit")
    steps = serializers.IntegerField()
    progress = serializers.FloatField(help_text="Share of the steps that earned something")
    finished = serializers.BooleanField(help_text="Whether the episode ended before its limit of steps")
    trajectory = SolvedStepSerializer(many=True)
    episode_id = serializers.UUIDField()
    greedy = serializers.BooleanField()
    seed = serializers.IntegerField(help_text="Seed of the environment's own random draws")
    cached = serializers.BooleanField(
        help_text="True if the actions of an earlier greedy episode were repeated, without asking a model"
    )
    latency_ms = serializers.FloatField(
        help_text="Time until it ended, including the wait for other problems of a batch"
    )


class FailureSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    fields = FaultSerializer(many=True)  # type: ignore[assignment]
    episode_id = serializers.UUIDField(
        allow_null=True, help_text="Episode of what was decided before the failure; null if nothing was"
    )
    decided = serializers.IntegerField(help_text="Decisions recorded in that episode")


class BatchItemSerializer(serializers.Serializer[Any]):
    """Exactly one of `solution` and `error` is given."""

    index = serializers.IntegerField(help_text="Position of the problem in the request")
    solution = SolutionSerializer(allow_null=True)
    error = FailureSerializer(allow_null=True)


class SolvedBatchSerializer(serializers.Serializer[Any]):
    answers = BatchItemSerializer(many=True)


def as_plain(solution: Solution) -> dict[str, Any]:
    """As the API sends it."""
    problem = solution.problem
    return {
        "environment": problem.task.environment,
        "problem": problem.task.text,
        "task": problem.task.id,
        "success": solution.success,
        "score": solution.score,
        "total_reward": solution.total_reward,
        "steps": len(solution.trajectory),
        "progress": solution.progress,
        "finished": solution.finished,
        "trajectory": [SolvedStepSerializer(step).data for step in solution.trajectory],
        "episode_id": solution.episode_id,
        "greedy": problem.greedy,
        "seed": problem.seed,
        "cached": solution.cached,
        "latency_ms": solution.latency_ms,
    }


def as_failure(failure: Failure) -> dict[str, Any]:
    """One item's error, in the words of the error envelope."""
    return {
        "code": failure.error.code,
        "message": failure.message,
        "fields": [
            {"field": fault.field, "reason": fault.reason, "expected": fault.expected} for fault in failure.error.faults
        ],
        "episode_id": failure.episode_id,
        "decided": failure.decided,
    }


class HumanFeedbackSerializer(serializers.Serializer[Any]):
    """Of a `training.environments.solving.quality.HumanFeedback`."""

    metric = serializers.CharField()
    count = serializers.IntegerField()
    mean = serializers.FloatField(
        allow_null=True,
        help_text="Mean of numbers; share of yes, or of confirming verdicts. Null if all are texts",
    )


class QualitySerializer(serializers.Serializer[Any]):
    """Of a `training.environments.solving.quality.Quality`: means over the episodes with an outcome; null without
    any."""

    start = serializers.DateTimeField(help_text="Start of the hour, day or week, in UTC; episodes count by their start")
    model_version = serializers.CharField(
        allow_null=True, help_text="Model version of the first decision; null: an outside model"
    )
    episodes = serializers.IntegerField(
        help_text="Episodes with an outcome: `solved` or `score` as feedback of code; not the held-out ones of runs"
    )
    left_out = serializers.IntegerField(
        help_text="Episodes that were interrupted, are under way, or whose environment failed"
    )
    solved = serializers.FloatField(allow_null=True, help_text="Share of the episodes that are solved")
    solved_low = serializers.FloatField(
        allow_null=True, help_text="Lower end of the 95% interval, by task; null for fewer than 2 tasks"
    )
    solved_high = serializers.FloatField(allow_null=True)
    score = serializers.FloatField(allow_null=True, help_text="Share of the task that is done")
    steps = serializers.FloatField(allow_null=True, help_text="Decisions per episode")
    progress = serializers.FloatField(allow_null=True, help_text="Share of the decisions that earned something")
    finished = serializers.FloatField(allow_null=True, help_text="Share that ended before the limit of steps")
    solved_by_domain = serializers.DictField(child=serializers.FloatField())
    feedback = HumanFeedbackSerializer(many=True, help_text="People's feedback on the episodes and their decisions")


class ActionQualitySerializer(serializers.Serializer[Any]):
    agent = serializers.CharField(source="agent.slug")
    since = serializers.CharField(source="time.key")
    by = serializers.CharField(source="time.by", help_text="What a row covers: hour, day or week")
    complete = serializers.BooleanField(help_text="False: only the newest 20,000 episodes were looked at")
    total = QualitySerializer(help_text="All rows together; `start` is the start of the range")
    rows = QualitySerializer(many=True, help_text="By time and model version, the oldest first; none without episodes")
