"""Greedy episodes that were solved before, given again as chats are (docs/adr/0035).

Django's cache holds for a while which episode solved a problem, and none of its words. Its actions are read from the
ledger and taken in the environment again, so what was erased, has left with its month, or would no longer lead to the
same states is not given again. What is given again is recorded as a new episode, whose calls say that they were cached.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from dataclasses import dataclass

import msgspec
from django.core.cache import cache
from django.utils import timezone
from msgspec import UNSET

from decisions.agents.current import CurrentAgent
from decisions.gateway.recording import record_again
from decisions.gateway.requests import RoutedRequest
from decisions.gateway.routing import find_request
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from training.environments.solving.acting import Acting
from training.errors import EnvironmentFailed
from workspaces.access.actors import Actor
from workspaces.storage.ids import uuid7


@dataclass(frozen=True, slots=True)
class Standing:
    """Who would answer now, and what the episode is kept under."""

    request: RoutedRequest
    key: str


def find_standing(*, by: Actor, current: CurrentAgent, acting: Acting) -> Standing | None:
    """None where the episode is neither given again nor kept: the agent's cache is off, actions are drawn, an
    experiment or a holdout asks about the unit, or nothing is asked at all. The key is the same only where workspace,
    version of the agent, weights, environment, task, seed and limit of steps are. Raises NoChampion."""
    problem = acting.problem
    if not problem.greedy or not current.agent.cache_seconds or acting.over:
        return None
    request = find_request(current=current, item=acting.next_item())
    if request is None or request.route.phase is not None:
        return None
    version = request.served
    weights = version.artifact.digest if version.artifact is not None else str(version.id)
    about = [str(by.workspace.id), str(request.current.version.id), weights, problem.seed, problem.max_steps]
    told = msgspec.json.encode([*about, problem.task], order="deterministic")
    return Standing(request, f"solve:{hashlib.sha256(told).hexdigest()}")


def keep_episode(*, standing: Standing, current: CurrentAgent, acting: Acting) -> None:
    """After the end of an episode of which `standing` answered every step."""
    names = {step.model_version for step in acting.trajectory if step.decision_id is not None}
    if acting.failure is None and acting.episode_id is not None and names == {str(standing.request.served)}:
        cache.set(standing.key, str(acting.episode_id), timeout=current.agent.cache_seconds)


def recall_episode(*, by: Actor, current: CurrentAgent, acting: Acting, standing: Standing) -> Acting | None:
    """The whole episode, recorded anew, if one was kept under this key within the agent's time; `acting` stays as it
    is. Raises IdNotUsable, IdConflict, Erased."""
    if not isinstance(kept := cache.get(standing.key), str):
        return None
    sources = Decision.objects.filter(
        workspace_id=by.workspace.id,
        episode_id=uuid.UUID(kept),
        agent_version=standing.request.current.version,
        recorded_at__gte=timezone.now() - dt.timedelta(seconds=current.agent.cache_seconds),
    )
    again = Acting(acting.place, acting.problem, acting.made)
    again.name, again.started, again.started_at, again.cached = acting.name, acting.started, acting.started_at, True
    found = list(sources.order_by("step_number")[: acting.problem.max_steps])
    items = _act_again(again, found, str(standing.request.served))
    if items is None:
        again.close()
        return None
    record_again(by=by, request=standing.request, items=items, sources=found, latency_ms=again.latency_ms)
    return again


def _act_again(again: Acting, sources: list[Decision], version: str) -> list[tuple[uuid.UUID, DecideItem]] | None:
    """Takes the recorded actions; None where they no longer make a whole episode."""
    items = []
    try:
        for source in sources:
            if again.over or source.propensity != 1:
                return None
            item = again.next_item()
            if source.state != item.state or source.options != item.options:
                return None
            decision_id = uuid7() if item.id is UNSET else item.id
            items.append((decision_id, item))
            again.decided += 1
            again.take(
                source.action,
                probability=1.0,
                confidence=source.confidence,
                decision_id=decision_id,
                model_version=version,
            )
    except EnvironmentFailed:  # solved anew, where it fails again and says so
        return None
    return items if again.over else None
