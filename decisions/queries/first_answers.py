"""What an agent that chats still needs before an outside model can answer it through the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from decisions.models import Agent
from models_registry.models import Backend, ModelVersion


@dataclass(frozen=True, slots=True)
class FirstAnswers:
    """Of an agent without a champion: a `backend` of its workspace, where a remote version can be added, and its
    model's newest `version`, which no alias serves; None where there is none."""

    agent: Agent
    backend: Backend | None
    version: ModelVersion | None


def find_first_answers(agent: Agent) -> FirstAnswers:
    """Two statements."""
    backends = Backend.objects.for_workspace(agent.workspace).filter(enabled=True)
    versions = ModelVersion.objects.filter(registered_model=agent.registered_model_id)
    newest = versions.select_related("registered_model").order_by("-number").first()
    return FirstAnswers(agent, backends.order_by("id").first(), newest)
