"""Asks the notes app's agents to decide, and says the answer in the app's shapes.

`decisions.notes_app.ai` calls these; `decisions.gateway.decide` answers and records, as for /api/v1.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from decisions.agents.actions import make_space
from decisions.agents.current import get_current_agent
from decisions.agents.kinds import KINDS, KindSetup
from decisions.agents.kinds.setup import action_schema, state_schema
from decisions.errors import UnknownAgent
from decisions.gateway.answers import Answer
from decisions.gateway.decide import decide
from decisions.ingest.decoding import fault_of
from decisions.ingest.schemas import DecideItem
from decisions.models import ActionSpaceKind, Agent
from decisions.notes_app.ledger import agent_of_kind
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, FieldFault, InvalidInput

ALTERNATIVES = 3


def ask_agent(
    *,
    by: Actor,
    kind: str,
    state: Mapping[str, Any],
    place: str = "",
    user: str | None = None,
    id: uuid.UUID | None = None,
) -> dict[str, Any]:
    """The answer of the workspace's agent of this kind, recorded. `place` is where the state stands in the body, for
    faults: "input". `user`: for whom. Raises UnknownAgent, Conflict, InvalidInput, and what `decide` raises."""
    agent = _find_agent(by, kind, state, place)
    if get_current_agent(by, agent.slug).version.action_space != ActionSpaceKind.STRUCTURED:
        raise Conflict(
            f"The agent {agent.slug!r} cannot answer as a {kind} of the notes app: its actions are not objects of a "
            "schema. Create an agent that has the kind's name and its setup."
        )
    try:
        item = msgspec.convert(_item(agent, KINDS[kind], state, user, id), DecideItem)
        [answer] = decide(by=by, agent=agent.slug, items=[item])
    except msgspec.ValidationError as error:
        raise InvalidInput("The input is invalid.", faults=[_renamed(fault_of(error), place)]) from error
    except InvalidInput as error:
        raise type(error)(error.message, faults=[_renamed(fault, place) for fault in error.faults]) from error
    shown = {"confidence": answer.confidence, "reasoning": answer.reasoning, "decisionId": answer.decision_id}
    return ANSWERS[kind](answer) | shown


def _find_agent(by: Actor, kind: str, state: Mapping[str, Any], place: str) -> Agent:
    """What is wrong with the state comes first, also without such an agent. Raises InvalidInput, UnknownAgent."""
    try:
        return agent_of_kind(by, kind)
    except UnknownAgent:
        setup = KINDS[kind]
        space = make_space(setup.action_space, action_schema(setup), state_schema(setup))
        if space.state is not None and (faults := space.state.faults(dict(state))):
            raise InvalidInput("The input is invalid.", faults=[_renamed(fault, place) for fault in faults]) from None
        raise


def _item(
    agent: Agent, setup: KindSetup, state: Mapping[str, Any], user: str | None, id: uuid.UUID | None
) -> dict[str, Any]:
    item, project = _id_at(state, setup.item_at), _id_at(state, setup.project_at)
    return {
        "state": dict(state),
        "unit": {"item": item, "user": user, "project": project}.get(agent.unit),
        "item_ref": item,
        "project_ref": project,
        "user_ref": user,
        **({"id": id} if id is not None else {}),
    }


def _id_at(state: Mapping[str, Any], place: str) -> Any:
    """The id of the thing at this place of the state; what is wrong with it, the state's schema says."""
    told = state.get(place)
    found = told.get("id") if isinstance(told, Mapping) else None
    return found if isinstance(found, str) and 0 < len(found) <= 200 else None


def _renamed(fault: FieldFault, place: str) -> FieldFault:
    """`state.todoItems` as `input.todoItems`, or as `todoItems` where the state is the body itself."""
    if fault.field.partition(".")[0] != "state":
        return fault
    inner = fault.field.removeprefix("state").removeprefix(".")
    return replace(fault, field=".".join(part for part in (place, inner) if part))


def _file(answer: Answer) -> dict[str, Any]:
    named = {name: answer.action.get(name) for name in ("status", "swimlane", "priority")}
    return named | {"labels": answer.action.get("labels") or []}


def _prioritize(answer: Answer) -> dict[str, Any]:
    """With the next likeliest items, and how likely the model would have been to recommend them."""
    chosen = answer.action["recommended_item_id"]
    told = zip(answer.options, answer.probabilities, strict=True)
    shares = {json.loads(option)["recommended_item_id"]: share for option, share in told}
    others = sorted((item for item in shares if item != chosen), key=lambda item: -shares[item])
    alternatives = [{"item_id": item, "confidence": shares[item]} for item in others[:ALTERNATIVES]]
    return {"recommended_item_id": chosen, "alternatives": answer.action.get("alternatives") or alternatives}


def _store(answer: Answer) -> dict[str, Any]:
    names = ("integrationDecision", "location", "method", "newSectionHeading", "suggestedContent")
    return {name: answer.action.get(name) for name in names}


def _retrieve(answer: Answer) -> dict[str, Any]:
    return {
        "generatedContent": answer.action["generatedContent"],
        "sourceCitations": answer.action.get("sourceCitations") or [],
    }


def _relate(answer: Answer) -> dict[str, Any]:
    return {"findings": answer.action["findings"]}


ANSWERS: Mapping[str, Callable[[Answer], dict[str, Any]]] = {
    "FILER": _file,
    "PRIORITIZER": _prioritize,
    "STORER": _store,
    "RETRIEVER": _retrieve,
    "LIBRARIAN": _relate,
}
