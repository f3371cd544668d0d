"""Agents, reward specs and labels: what people set up and judge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Max

from decisions.agents.actions import check_schema
from decisions.agents.current import space_of
from decisions.agents.kinds import FIVE, KINDS, action_schema, state_schema
from decisions.agents.prompts import template_fields
from decisions.errors import Erased, InvalidRewardSpec, InvalidTemplate
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.models import (
    ActionSpaceKind,
    Agent,
    AgentKind,
    AgentVersion,
    Decision,
    Feedback,
    Label,
    RewardSpec,
    Verdict,
)
from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import SQL_COMPONENTS
from decisions.rewards.components import COMPONENTS
from models_registry.services import register_model
from workspaces.actors import Actor
from workspaces.errors import Conflict, FieldFault, InvalidInput
from workspaces.models import Workspace
from workspaces.services import record_audit


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What a new version of an agent says. See AgentVersion for the meaning and ranges."""

    prompt_template: str
    action_space: str = "choice"
    options: Sequence[str] | None = None
    action_schema: Mapping[str, Any] | None = None
    state_schema: Mapping[str, Any] | None = None
    max_prompt_tokens: int = 64
    max_completion_tokens: int = 16
    temperature: float = 1.0
    epsilon: float = 0.05


@dataclass(frozen=True, slots=True)
class ComponentSetup:
    name: str
    weight: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict)


# Weights that keep sums and products far from the ends of a float8.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
DEFAULT_COMPONENTS = (ComponentSetup("verdict", 1.0),)


def kind_setup(kind: str) -> AgentSetup:
    """What an agent of this kind takes that brings no set-up of its own. Raises InvalidInput for CUSTOM."""
    known = KINDS.get(kind)
    if known is None:
        raise InvalidInput(
            "This kind of agent has no set-up of its own.",
            faults=[FieldFault("prompt_template", "is missing", f"a template, or a kind of {', '.join(KINDS)}")],
        )
    return AgentSetup(
        prompt_template=known.prompt_template,
        action_space=known.action_space,
        options=known.options,
        action_schema=action_schema(known),
        state_schema=state_schema(known),
        max_prompt_tokens=known.max_prompt_tokens,
        max_completion_tokens=known.max_completion_tokens,
    )


def kind_unit(kind: str) -> str:
    """What an experiment on agents of this kind sticks to."""
    return KINDS[kind].unit if kind in KINDS else "item"


@transaction.atomic
def create_agent(
    *,
    by: Actor,
    slug: str,
    name: str,
    setup: AgentSetup | None = None,
    kind: str = AgentKind.CUSTOM,
    unit: str = "item",
) -> Agent:
    """The agent, its first version, its registered model and its first reward spec. Without `setup`, the kind's."""
    setup = setup or kind_setup(kind)
    check_setup(setup)
    # The agent moves this row (migration 0012). Taken before its names, so that two who make several do not wait for
    # each other in a circle.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    if Agent.objects.for_workspace(by.workspace).filter(slug=slug).exists():
        raise InvalidInput("The agent exists.", faults=[FieldFault("slug", f"{slug!r} is taken", "another slug")])
    model = register_model(by=by, name=slug)
    agent = Agent.objects.create(
        workspace=by.workspace, slug=slug, name=name, kind=kind, unit=unit, registered_model=model
    )
    create_agent_version(by=by, agent=agent, setup=setup)
    create_reward_spec(by=by, agent=agent, components=DEFAULT_COMPONENTS)
    record_audit(by=by, action="agent.created", target=f"agent:{agent.id}", details={"slug": slug})
    return agent


@transaction.atomic
def create_notes_agents(*, by: Actor) -> list[Agent]:
    """The five agents of the notes app, by their kind's own set-up. Those that are there stay as they are."""
    there = set(Agent.objects.for_workspace(by.workspace).filter(kind__in=FIVE).values_list("kind", flat=True))
    return [
        create_agent(by=by, slug=kind.lower(), name=AgentKind(kind).label, kind=kind, unit=kind_unit(kind))
        for kind in FIVE
        if kind not in there
    ]


def check_setup(setup: AgentSetup) -> None:
    """Gathers every fault. Raises InvalidInput or InvalidTemplate."""
    faults = []
    try:
        template_fields(setup.prompt_template)
    except ValueError as error:
        raise InvalidTemplate(
            "The prompt template is not usable.", faults=[FieldFault("prompt_template", str(error))]
        ) from error
    if setup.action_space not in ActionSpaceKind.values:
        faults.append(
            FieldFault("action_space", f"{setup.action_space!r} is unknown", ", ".join(ActionSpaceKind.values))
        )
    if setup.options is not None and (len(setup.options) < 2 or len(set(setup.options)) != len(setup.options)):
        faults.append(FieldFault("options", "fewer than two, or one twice", "two or more different options"))
    if setup.temperature <= 0:
        faults.append(FieldFault("temperature", f"{setup.temperature} is not positive", "more than 0"))
    if not 0 <= setup.epsilon <= 1:
        faults.append(FieldFault("epsilon", f"{setup.epsilon} is not a share", "0 to 1"))
    if setup.action_space == ActionSpaceKind.STRUCTURED:
        reason = check_schema(setup.action_schema or {})
        if reason is not None:
            faults.append(FieldFault("action_schema", reason, "a JSON schema of draft 2020-12"))
    if setup.state_schema is not None and (reason := check_schema(setup.state_schema)) is not None:
        faults.append(FieldFault("state_schema", reason, "a JSON schema of draft 2020-12"))
    if faults:
        raise InvalidInput("The agent's version is not usable.", faults=faults)


@transaction.atomic
def create_agent_version(*, by: Actor, agent: Agent, setup: AgentSetup) -> AgentVersion:
    """The next version; earlier ones stay as they are for ever."""
    check_setup(setup)
    Agent.objects.select_for_update().get(id=agent.id)
    last = agent.versions.aggregate(last=Max("number"))["last"] or 0
    version = AgentVersion.objects.create(
        workspace=by.workspace,
        agent=agent,
        number=last + 1,
        prompt_template=setup.prompt_template,
        action_space=setup.action_space,
        options=list(setup.options) if setup.options is not None else None,
        action_schema=dict(setup.action_schema) if setup.action_schema is not None else None,
        state_schema=dict(setup.state_schema) if setup.state_schema is not None else None,
        max_prompt_tokens=setup.max_prompt_tokens,
        max_completion_tokens=setup.max_completion_tokens,
        temperature=setup.temperature,
        epsilon=setup.epsilon,
    )
    record_audit(by=by, action="agent_version.created", target=f"agent_version:{version.id}")
    return version


@transaction.atomic
def create_reward_spec(*, by: Actor, agent: Agent, components: Sequence[ComponentSetup]) -> RewardSpec:
    """The next reward spec of the agent. Raises InvalidRewardSpec with every fault."""
    faults = []
    names = [component.name for component in components]
    if not components:
        faults.append(FieldFault("components", "none given", "at least one component"))
    for index, name in enumerate(names):
        if name not in COMPONENTS:
            faults.append(FieldFault(f"components[{index}].name", f"{name!r} is unknown", ", ".join(COMPONENTS)))
        elif name not in SQL_COMPONENTS:
            known = ", ".join(SQL_COMPONENTS)
            faults.append(FieldFault(f"components[{index}].name", f"{name} is for fresh decisions only", known))
        elif names.index(name) != index:
            faults.append(FieldFault(f"components[{index}].name", f"{name} stands twice", "each component once"))
    for index, component in enumerate(components):
        if component.weight != 0 and not SMALLEST_WEIGHT <= abs(component.weight) <= LARGEST_WEIGHT:
            faults.append(
                FieldFault(
                    f"components[{index}].weight",
                    f"{component.weight} is out of range",
                    f"0, or {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g} up or down",
                )
            )
    if faults:
        raise InvalidRewardSpec("The reward spec is not usable.", faults=faults)
    plain = [{"name": c.name, "weight": c.weight, "parameters": dict(c.parameters)} for c in components]
    Agent.objects.select_for_update().get(id=agent.id)
    last = agent.reward_specs.aggregate(last=Max("number"))["last"] or 0
    spec = RewardSpec(workspace=by.workspace, agent=agent, number=last + 1, components=plain)
    content = msgspec.json.encode([plain, spec.clamp, spec.low, spec.high], order="deterministic")
    spec.spec_hash = hashlib.sha256(content).hexdigest()
    spec.save(force_insert=True)
    record_audit(by=by, action="reward_spec.created", target=f"reward_spec:{spec.id}")
    return spec


def current_reward_spec(agent: Agent) -> RewardSpec:
    return agent.reward_specs.order_by("-number")[0]


@transaction.atomic
def label_decision(
    *, by: Actor, decision: Decision, verdict: str, corrected_action: Any = None, note: str = ""
) -> Label:
    """A reviewer's judgement, and the feedback that rewards read, in one transaction. Raises InvalidInput, Erased."""
    if bytes(decision.content_hash) == ERASED_HASH:
        raise Erased.of([decision.id], field="decision_id")
    faults = []
    if verdict not in Verdict.values:
        faults.append(FieldFault("verdict", f"{verdict!r} is unknown", ", ".join(Verdict.values)))
    if corrected_action is not None and verdict not in {Verdict.CORRECTED, Verdict.OVERRIDDEN}:
        faults.append(FieldFault("corrected_action", f"given with {verdict}", "only with corrected or overridden"))
    space = space_of(decision.agent_version)
    offered = decision.options if space.kind == ActionSpaceKind.CHOICE else None
    if corrected_action is not None and offered is not None and corrected_action not in offered:
        faults.append(FieldFault("corrected_action", f"{corrected_action!r} was not offered", "an offered option"))
    if corrected_action is not None and space.kind != ActionSpaceKind.CHOICE:
        faults += [
            replace(fault, field=fault.field.replace("action", "corrected_action", 1))
            for fault in space.action_faults(corrected_action, options=decision.options, state=decision.state)
        ]
    if corrected_action is not None and corrected_action == decision.action:
        faults.append(FieldFault("corrected_action", "is what was decided", "another option, or confirm"))
    if faults:
        raise InvalidInput("The label is not usable.", faults=faults)
    label = Label.objects.create(
        workspace=by.workspace,
        decision=decision,
        reviewer=by.user,
        verdict=verdict,
        corrected_action=corrected_action,
        note=note,
    )
    outcome = record_feedback(
        by=by,
        items=[
            (
                0,
                FeedbackIn(
                    metric="verdict", value=verdict, decision_id=decision.id, idempotency_key=f"label:{label.id}"
                ),
            )
        ],
    )
    assert not outcome.errors, outcome.errors
    return label


@transaction.atomic
def judge_decision(*, by: Actor, decision: Decision, verdict: str, correction: Any = None) -> Label:
    """A label from what an app sends: a correction may be the right action, the fields of it that were wrong, or words.

    The same judgement twice makes one label. Raises InvalidInput, with `correction` as the field.
    """
    note, corrected = "", correction
    if isinstance(correction, Mapping) and isinstance(decision.action, Mapping):
        corrected = {**decision.action, **correction}
    elif isinstance(correction, str) and not isinstance(decision.action, str):
        note, corrected = correction, None
    last = Label.objects.filter(decision=decision).order_by("-id").first()
    if last is not None and (last.verdict, last.corrected_action, last.note) == (verdict, corrected, note):
        return last
    try:
        return label_decision(by=by, decision=decision, verdict=verdict, corrected_action=corrected, note=note)
    except InvalidInput as error:
        names = {"verdict": "feedback", "corrected_action": "correction"}
        faults = [
            replace(fault, field=re.sub(r"^\w+", lambda name: names.get(name[0], name[0]), fault.field))
            for fault in error.faults
        ]
        raise InvalidInput(error.message, faults=faults) from error


WITHDRAWN = "verdict_withdrawn"
"""The metric of the feedback that takes a label's verdict back."""


@transaction.atomic
def withdraw_label(*, by: Actor, decision: Decision) -> Label:
    """Takes back the decision's newest label, which must be the actor's own; what was judged before counts again.

    Feedback is append-only: another one supersedes the label's, so that rewards no longer read it. Raises
    Conflict, Erased.
    """
    if bytes(decision.content_hash) == ERASED_HASH:
        raise Erased.of([decision.id], field="decision_id")
    label = Label.objects.select_for_update().filter(decision=decision).order_by("-id").first()
    if label is None or by.user is None or label.reviewer_id != by.user.pk:
        raise Conflict("There is no label of yours to take back: it is gone, or someone judged after you.")
    key = f"label:{label.id}"
    fed = Feedback.objects.filter(decision=decision, idempotency_key=key).values_list("id", flat=True).get()
    outcome = record_feedback(
        by=by,
        items=[
            (
                0,
                FeedbackIn(
                    metric=WITHDRAWN,
                    value=label.verdict,
                    decision_id=decision.id,
                    supersedes=fed,
                    idempotency_key=f"withdrawn:{label.id}",
                ),
            )
        ],
    )
    assert not outcome.errors, outcome.errors
    label.delete()
    return label
