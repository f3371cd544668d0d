"""The agent `tools`: acts in an environment by calls of its tools, in one conversation. No torch.

For models that write their calls, where the scorer only ever picks what is on offer.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import httpx

from training.engine.environments.outside import Endpoint, Graded, OutsideAgent
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from training.engine.environments.tasks import Task

PATIENCE = 600.0
"""Seconds that an answer may take."""


class ToolAgent(OutsideAgent):
    """A conversation: the observation, then calls and what they found. It ends with the environment, with an answer
    that calls nothing, after `max_steps` answers, or where the messages have become too long. Of a call that cannot be
    read the model is told why."""

    name: ClassVar[str] = "tools"
    does: ClassVar[str] = "Acts in an environment by calls of its tools."

    def find_faults(self, task: Task) -> list[str]:
        try:
            find_environment(task.environment)().reset(task)
        except (UnknownEnvironment, BadEnvironment) as error:
            return [f"environment: {error}"]
        except ValueError as error:
            return [str(error)]
        except EnvironmentFault:
            return []  # it may work the next time; the run counts what does not
        return []

    def act(self, task: Task, seed: int, endpoint: Endpoint) -> Graded:
        world = find_environment(task.environment)()
        try:
            earned = _act(world, task, seed, endpoint)
            return Graded(earned / world.most_reward, world.solved, world.score, world.components())
        finally:
            world.close()


def _act(world: BaseEnvironment, task: Task, seed: int, endpoint: Endpoint) -> float:
    messages: list[dict[str, Any]] = [{"role": "user", "content": world.reset(task, seed)}]
    tools = [tool.as_openai() for tool in world.tools()]
    earned = 0.0
    with httpx.Client(timeout=PATIENCE, headers={"Authorization": f"Bearer {endpoint.api_key}"}) as client:
        for _ in range(world.max_steps):
            answer = _ask(client, endpoint, messages, tools)
            calls = (answer or {}).get("tool_calls") or ()
            if answer is None or not calls:
                break
            messages.append(answer)
            for call in calls:
                reward, found = _take(world, call["function"])
                earned += reward
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
            if world.done:
                break
    return earned


def _ask(
    client: httpx.Client, endpoint: Endpoint, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The model's message; None where the messages have become too long for it."""
    body = {"model": endpoint.model, "messages": messages, "tools": tools}
    try:
        answer = client.post(f"{endpoint.base_url}/chat/completions", json=body)
    except httpx.HTTPError as error:
        raise EnvironmentFault(f"the model does not answer: {error}") from error
    if answer.is_success:
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        return message
    if answer.json().get("error", {}).get("code") == "context_length_exceeded":
        return None
    raise EnvironmentFault(f"the model answers with {answer.status_code}: {answer.text[:200]}")


def _take(world: BaseEnvironment, call: dict[str, Any]) -> tuple[float, str]:
    """What a call earned, and what the model reads of it."""
    if world.done:
        return 0.0, "The episode is over."
    try:
        result = world.step(world.read_call(call["name"], json.loads(call["arguments"])))
    except ValueError as error:
        return 0.0, f"Error: {error}"
    refused = result.info.get("error")
    return result.reward, f"Error: {refused}\n{result.observation}" if refused else result.observation
