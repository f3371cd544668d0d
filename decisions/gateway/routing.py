"""Routes the items of one agent: which model version answers each, and as which version of the agent it is asked.

Outside experiments, and in those on model versions, everybody is asked as the agent's current version says. In an
experiment on versions of the agent (`decisions.agents.trying`) each arm has its own; other agents of the same model
stay outside it. `decide` and chats ask here.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from decisions.agents.arm_setups import find_arm_setups
from decisions.agents.current import CurrentAgent, space_of
from decisions.gateway.requests import Answerer, IdentifiedItem, RenderedPrompt, RoutedRequest
from decisions.gateway.ways import Render, render
from decisions.ingest.schemas import DecideItem
from decisions.queries.first_labels import find_first_labels
from models_registry.errors import NoChampion
from models_registry.models import Arm, ModelVersion
from models_registry.routing.router import Route, Router
from models_registry.routing.routes import Routes, find_routes
from models_registry.versions.services import BY_LABELS, NOBODY
from workspaces.storage.ids import uuid7

OUTSIDE = (
    "An outside model can answer it: add its server as a backend, then a remote version of the model {0} there "
    "(POST /api/v1/remote-versions, or the page Backends)."
)
BY_TEXTS = (
    "To train one from a file, import texts (manage.py import_texts), then start a run with the method sft on a "
    "pretrained base, as a tiny model cannot write (POST /api/v1/runs, or the page Runs); docs/commands.md and "
    "docs/runs.md have both. The first version serves as soon as it is there. Until then report what your app decides "
    "to POST /api/v1/decisions."
)
"""What `BY_LABELS` says, of an agent that chats."""


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
    def control(self) -> CurrentAgent:
        """By whose prompt everybody is asked outside the treatment, and items are refused whatever their arm."""
        return self._current

    @property
    def acting(self) -> list[CurrentAgent]:
        return [self._current, *self._tried.values()]

    def route(self, identified: IdentifiedItem, prompt: RenderedPrompt, render: Render) -> RoutedRequest:
        """`prompt`: the control's. `render`: makes that of a treatment which asks otherwise. A treatment that cannot be
        asked is stood in for from the start."""
        decision_id, path, item = identified.id, identified.path, identified.item
        unit = item.unit or str(decision_id)  # without a unit, the decision is its own unit
        route = self._router.route_outside(unit) if self._outside else self._router.route(unit)
        if route.phase is None or route.other is None or route.arm is None:
            answerer = Answerer(route.version, self._current, prompt)
            return RoutedRequest(decision_id, path, item, unit, route, answerer, control=answerer)
        by_arm = {Arm(route.arm): route.version, _other(route.arm): route.other}
        control = Answerer(by_arm[Arm.CONTROL], self._current, prompt)
        treatment = replace(control, version=by_arm[Arm.TREATMENT])
        if tried := self._tried.get(route.phase.experiment_id):
            treatment = _ask_tried(treatment.version, tried, identified, render)
        if route.arm == Arm.CONTROL:
            return RoutedRequest(decision_id, path, item, unit, route, control, control, treatment)
        if treatment.prompt is None:
            return RoutedRequest(decision_id, path, item, unit, route, control, control, None, True, treatment.refusal)
        return RoutedRequest(decision_id, path, item, unit, route, treatment, control, control)


def find_agent_routes(current: CurrentAgent) -> Routes:
    """Returns who serves the agent. Raises NoChampion, which says whether people's verdicts suffice for a first
    model."""
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
        if current.version.chats:
            hint = f"{OUTSIDE.format(current.agent.registered_model.name)} {hint}"
        nobody = NOBODY.format(current.agent.registered_model.name)
        raise NoChampion(f"{nobody} {hint} {BY_TEXTS if current.version.chats else BY_LABELS}") from None


def find_routing(current: CurrentAgent) -> Routing:
    """Raises NoChampion."""
    return Routing(current, find_agent_routes(current).router)


def find_request(*, current: CurrentAgent, item: DecideItem) -> RoutedRequest | None:
    """Who would answer the item now, and as which version of the agent; None where it cannot be asked, which `decide`
    then says. Raises NoChampion."""
    routing = find_routing(current)
    rendering = render(routing.control, item)
    if rendering.prompt is None or rendering.faults:
        return None
    return routing.route(IdentifiedItem(uuid7(), "", item), rendering.prompt, render)


def pin_request(
    identified: IdentifiedItem, unit: str, current: CurrentAgent, version: ModelVersion, prompt: RenderedPrompt
) -> RoutedRequest:
    """Of a request that names its version: outside any experiment."""
    answerer = Answerer(version, current, prompt)
    route = Route(version=version)
    return RoutedRequest(identified.id, identified.path, identified.item, unit, route, answerer, control=answerer)


def _ask_tried(version: ModelVersion, tried: CurrentAgent, identified: IdentifiedItem, render: Render) -> Answerer:
    rendering = render(tried, identified.item)
    if not rendering.faults:
        return Answerer(version, tried, rendering.prompt)
    why = "; ".join(f"{fault.field} {fault.reason}" for fault in rendering.faults_at(identified.path))
    return Answerer(version, tried, None, f"{tried.version} cannot be asked: {why}")


def _other(arm: str) -> Arm:
    return Arm.CONTROL if arm == Arm.TREATMENT else Arm.TREATMENT
