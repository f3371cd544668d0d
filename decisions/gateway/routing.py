"""Routes the items of one agent: which model version answers each, and as which version of the agent it is asked.

Outside experiments, and in those on model versions, everybody is asked as the agent's current version says. In an
experiment on versions of the agent (`decisions.agents.trying`) each arm has its own; other agents of the same model
stay outside it. `decide` and chats ask here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from decisions.agents.arm_setups import find_arm_setups
from decisions.agents.current import CurrentAgent, space_of
from decisions.gateway.questions import Question, Side, Wanted
from decisions.ingest.schemas import DecideItem
from decisions.queries.first_labels import find_first_labels
from models_registry.errors import NoChampion
from models_registry.models import Arm, ModelVersion
from models_registry.routing.router import Route, Router
from models_registry.routing.routes import Routes, find_routes
from models_registry.versions.services import BY_LABELS, NOBODY
from workspaces.errors import FieldFault

Ask = Callable[[CurrentAgent, list[FieldFault]], Wanted | None]
"""What the agent in this version asks for; None, with its faults added, where it cannot answer the item."""


def find_agent_routes(current: CurrentAgent) -> Routes:
    """Raises NoChampion, which says whether people's verdicts suffice for a first model."""
    assert current.agent.registered_model is not None
    try:
        return find_routes(current.agent.registered_model)
    except NoChampion:
        first = find_first_labels([current.agent])[current.agent.id]
        slug = current.agent.slug
        hint = first.missing or (
            f"Train the first model from {first.verdicts:,} verdicts: POST /api/v1/runs/train with"
            f' {{"agent": "{slug}"}}, manage.py runs train --agent {slug}, or the button on the page Overview.'
        )
        nobody = NOBODY.format(current.agent.registered_model.name)
        raise NoChampion(f"{nobody} {hint} {BY_LABELS}") from None


class Routing:
    """Of one request: `current` as it was read, and who serves it. `acting`: every version of the agent that may
    act."""

    def __init__(self, current: CurrentAgent, router: Router) -> None:
        self._current, self._router = current, router
        self._tried: dict[uuid.UUID, CurrentAgent] = {}
        self._outside = not router.running
        for running in router.running:
            if not running.has_setups:
                continue
            setups = find_arm_setups(running.experiment.id)
            if setups is None or setups.agent_id != current.agent.id:
                self._outside = True  # all of a group are on the versions of one agent
                continue
            tried, own = setups.versions[Arm.TREATMENT], setups.versions[Arm.CONTROL]
            self._tried[running.experiment.id] = replace(current, version=tried, space=space_of(tried))
            self._current = replace(current, version=own, space=space_of(own))

    @property
    def acting(self) -> list[CurrentAgent]:
        return [self._current, *self._tried.values()]

    def make_question(
        self, decision_id: uuid.UUID, path: str, item: DecideItem, ask: Ask, faults: list[FieldFault]
    ) -> Question | None:
        """None, with its faults added, where the control cannot be asked about the item: which items are refused does
        not depend on the arm. A treatment that cannot be asked is stood in for from the start."""
        wanted = ask(self._current, faults)
        if wanted is None:
            return None
        unit = item.unit or str(decision_id)  # without a unit, the decision is its own unit
        route = self._router.route_outside(unit) if self._outside else self._router.route(unit)
        if route.phase is None or route.other is None or route.arm is None:
            side = Side(route.version, self._current, wanted)
            return Question(decision_id, path, item, unit, route, side, control=side)
        by_arm = {Arm(route.arm): route.version, _other(route.arm): route.other}
        control = Side(by_arm[Arm.CONTROL], self._current, wanted)
        treatment = self._treatment(by_arm[Arm.TREATMENT], self._tried.get(route.phase.experiment_id), wanted, ask)
        if route.arm == Arm.CONTROL:
            return Question(decision_id, path, item, unit, route, control, control, treatment)
        if treatment.wanted is None:
            return Question(decision_id, path, item, unit, route, control, control, None, True, treatment.refusal)
        return Question(decision_id, path, item, unit, route, treatment, control, control)

    def _treatment(self, version: ModelVersion, tried: CurrentAgent | None, wanted: Wanted, ask: Ask) -> Side:
        if tried is None:
            return Side(version, self._current, wanted)
        faults: list[FieldFault] = []
        own = ask(tried, faults)
        why = "; ".join(f"{fault.field} {fault.reason}" for fault in faults)
        refusal = f"{tried.version} cannot be asked: {why}" if own is None else ""
        return Side(version, tried, own, refusal)


def pin_question(
    decision_id: uuid.UUID, item: DecideItem, unit: str, current: CurrentAgent, version: ModelVersion, wanted: Wanted
) -> Question:
    """Of a request that names its version: outside any experiment."""
    side = Side(version, current, wanted)
    return Question(decision_id, "", item, unit, Route(version=version), side, control=side)


def _other(arm: str) -> Arm:
    return Arm.CONTROL if arm == Arm.TREATMENT else Arm.TREATMENT
