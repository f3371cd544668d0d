"""What an agent that chats still needs before an outside model can answer it through the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from decisions.models import Agent
from models_registry.models import Backend, ModelVersion


@dataclass(frozen=True, slots=True)
class FirstAnswers:
    """The next steps of an agent without a champion. `backend`: one of its workspace, to add a remote version at;
    `version`: its model's newest one, which no alias serves; each None where there is none."""

    agent: Agent
    backend: Backend | None
    version: ModelVersion | None


def find_first_answers(agent: Agent) -> FirstAnswers:
    """Two statements."""
    backends = Backend.objects.for_workspace(agent.workspace).filter(enabled=True)
    versions = ModelVersion.objects.filter(registered_model=agent.registered_model_id)
    newest = versions.select_related("registered_model").order_by("-number").first()
    return FirstAnswers(agent, backends.order_by("id").first(), newest)
