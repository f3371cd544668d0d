"""Services that create and change agents and their versions."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.db.models import Max

from decisions.agents.actions import check_schema
from decisions.agents.current import find_current_version
from decisions.agents.kinds import FIVE, KINDS, action_schema, state_schema
from decisions.agents.prompts import OF_CHAT, template_fields
from decisions.errors import InvalidTemplate
from decisions.models import (
    CHATTING,
    ActionSpaceKind,
    Agent,
    AgentKind,
    AgentVersion,
)
from decisions.rewards.components.defaults import CHOOSER, PRESETS, VERDICT_ONLY, Preset
from decisions.rewards.spec_content import preset_content
from decisions.rewards.specs import create_reward_spec
from models_registry.versions.services import register_model
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

PROMPT_TOKENS, COMPLETION_TOKENS = 64, 16
"""Limits of an agent that does not chat, unless others are asked for."""


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What a new version of an agent says. See AgentVersion for the meaning and ranges."""

    prompt_template: str
    system_prompt: str = field(default="", kw_only=True)
    action_space: str = "choice"
    options: Sequence[str] | None = None
    action_schema: Mapping[str, Any] | None = None
    state_schema: Mapping[str, Any] | None = None
    max_prompt_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float = 1.0
    epsilon: float = 0.05
    exploration_budget: float | None = None

    def __post_init__(self) -> None:
        """Where no limits are given, agents that chat have none, and others the usual ones."""
        if self.action_space in CHATTING:
            return
        for name, usual in (("max_prompt_tokens", PROMPT_TOKENS), ("max_completion_tokens", COMPLETION_TOKENS)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, usual)


def make_setup(kind: str, fields: Mapping[str, Any]) -> AgentSetup:
    """Makes the setup of the fields that were sent: what is left out is the kind's own where there is no prompt
    template, and an agent of no kind that chats gets the template of chats. Raises InvalidInput."""
    if "prompt_template" not in fields and kind not in KINDS and fields.get("action_space") in CHATTING:
        fields = {"prompt_template": OF_CHAT, **fields}
    return AgentSetup(**fields) if "prompt_template" in fields else replace(kind_setup(kind), **fields)


def kind_setup(kind: str) -> AgentSetup:
    """What an agent of this kind takes that brings no set-up of its own. Raises InvalidInput for CUSTOM."""
    known = KINDS.get(kind)
    if known is None:
        raise InvalidInput(
            "This kind of agent has no default setup.",
            faults=[
                FieldFault(
                    "prompt_template",
                    "is missing",
                    f"a template, a kind of {', '.join(KINDS)}, or an action_space of {' or '.join(sorted(CHATTING))}",
                )
            ],
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
    preset: Preset | None = None,
) -> Agent:
    """The agent, its first version, its registered model and its first reward spec, that of `preset`. Without `setup`,
    the kind's, and the kind's components of the reward; an agent with a set-up of its own begins with the verdict, and
    one that takes its options with each decision also with the score of its episodes, which `solve` reports."""
    if preset is None:
        preset = PRESETS[kind] if setup is None else _find_preset(setup)
    setup = setup or kind_setup(kind)
    check_setup(setup)
    # Agents of a workspace are made one after the other: the second of two with one name finds the first's.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    if Agent.objects.for_workspace(by.workspace).filter(slug=slug).exists():
        raise InvalidInput(
            "The agent already exists.", faults=[FieldFault("slug", f"{slug!r} is taken", "another slug")]
        )
    model = register_model(by=by, name=slug)
    agent = Agent.objects.create(
        workspace=by.workspace, slug=slug, name=name, kind=kind, unit=unit, registered_model=model
    )
    create_agent_version(by=by, agent=agent, setup=setup)
    create_reward_spec(by=by, agent=agent, content=preset_content(preset))
    record_audit(by=by, action="agent.created", target=f"agent:{agent.id}", details={"slug": slug})
    return agent


def _find_preset(setup: AgentSetup) -> Preset:
    takes_options = setup.action_space == ActionSpaceKind.CHOICE and setup.options is None
    return CHOOSER if takes_options else VERDICT_ONLY


@transaction.atomic
def create_notes_agents(*, by: Actor) -> list[Agent]:
    """The five agents of the notes app, by their kind's own set-up. Those that are there stay as they are.

    Where an agent of another kind has the kind's name, `notes-filer` is made: the app asks for kinds, not for names.
    """
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)  # as create_agent does
    agents = Agent.objects.for_workspace(by.workspace)
    there = set(agents.filter(kind__in=FIVE).values_list("kind", flat=True))
    taken = set(agents.values_list("slug", flat=True))
    return [
        create_agent(
            by=by, slug=_free_slug(kind.lower(), taken), name=AgentKind(kind).label, kind=kind, unit=kind_unit(kind)
        )
        for kind in FIVE
        if kind not in there
    ]


def _free_slug(wanted: str, taken: Collection[str]) -> str:
    more = (f"notes-{wanted}-{number}" for number in itertools.count(2))
    return next(slug for slug in itertools.chain([wanted, f"notes-{wanted}"], more) if slug not in taken)


def check_setup(setup: AgentSetup) -> None:
    """Gathers every fault. Raises InvalidInput or InvalidTemplate."""
    faults: list[FieldFault] = []
    try:
        template_fields(setup.prompt_template)
    except ValueError as error:
        raise InvalidTemplate(
            "The prompt template is invalid.", faults=[FieldFault("prompt_template", str(error))]
        ) from error
    faults += _find_system_faults(setup)
    if setup.action_space not in ActionSpaceKind.values:
        faults.append(
            FieldFault("action_space", f"{setup.action_space!r} is unknown", ", ".join(ActionSpaceKind.values))
        )
    least = 1 if setup.action_space in CHATTING else 2
    if setup.options is not None and (len(setup.options) < least or len(set(setup.options)) != len(setup.options)):
        faults.append(FieldFault("options", "must hold two or more different options", "two or more different options"))
    if setup.temperature <= 0:
        faults.append(FieldFault("temperature", f"{setup.temperature} is not positive", "more than 0"))
    if not 0 <= setup.epsilon <= 1:
        faults.append(FieldFault("epsilon", f"{setup.epsilon} is out of range", "0 to 1"))
    if setup.exploration_budget is not None and not 0 < setup.exploration_budget <= 1_000:
        outside = f"{setup.exploration_budget} is out of range"
        faults.append(FieldFault("exploration_budget", outside, "above 0, up to 1,000"))
    described = setup.action_space in CHATTING and setup.action_schema is not None
    if setup.action_space == ActionSpaceKind.STRUCTURED or described:
        reason = check_schema(setup.action_schema or {})
        if reason is not None:
            faults.append(FieldFault("action_schema", reason, "a JSON schema of draft 2020-12"))
    if setup.state_schema is not None and (reason := check_schema(setup.state_schema)) is not None:
        faults.append(FieldFault("state_schema", reason, "a JSON schema of draft 2020-12"))
    if faults:
        raise InvalidInput("The agent's version is invalid.", faults=faults)


def _find_system_faults(setup: AgentSetup) -> list[FieldFault]:
    """A word is a token at least, so with as many words as tokens nothing is left for what is asked. The rest only a
    tokenizer knows: a run and the model server refuse then."""
    words, most = len(setup.system_prompt.split()), setup.max_prompt_tokens
    if setup.system_prompt and not words:
        return [FieldFault("system_prompt", "is blank", "a text, or nothing")]
    if words and most is not None and words >= most:
        return [
            FieldFault(
                "system_prompt",
                f"its {words:,} words leave no room for the prompt in {most:,} prompt tokens",
                f"a shorter one, or max_prompt_tokens well above {words:,}",
            )
        ]
    return []


@transaction.atomic
def create_agent_version(
    *, by: Actor, agent: Agent, setup: AgentSetup, changed: Sequence[str] = (), acts: bool = True
) -> AgentVersion:
    """The next version; earlier ones stay as they are. `changed` names the fields that differ, for the audit. acts:
    whether it is the agent's current version from now on; False for one that an experiment is to try."""
    check_setup(setup)
    locked = Agent.objects.select_for_update().get(id=agent.id)
    last = agent.versions.aggregate(last=Max("number"))["last"] or 0
    version = AgentVersion.objects.create(
        workspace=by.workspace,
        agent=agent,
        number=last + 1,
        prompt_template=setup.prompt_template,
        system_prompt=setup.system_prompt,
        action_space=setup.action_space,
        options=list(setup.options) if setup.options is not None else None,
        action_schema=dict(setup.action_schema) if setup.action_schema is not None else None,
        state_schema=dict(setup.state_schema) if setup.state_schema is not None else None,
        max_prompt_tokens=setup.max_prompt_tokens,
        max_completion_tokens=setup.max_completion_tokens,
        temperature=setup.temperature,
        epsilon=setup.epsilon,
        exploration_budget=setup.exploration_budget,
    )
    if acts:
        _point(agent, locked, None)
    elif locked.current_version_id is None:
        _point(agent, locked, agent.versions.exclude(id=version.id).first())
    details: dict[str, Any] = {"agent": agent.slug, "number": version.number}
    if changed:
        details["changed"] = list(changed)
    if not acts:
        details["acts"] = False
    record_audit(by=by, action="agent_version.created", target=f"agent_version:{version.id}", details=details)
    return version


@transaction.atomic
def use_agent_version(*, by: Actor, version: AgentVersion) -> None:
    """It acts for its agent from now on. Nothing changes, and nothing is audited, where it does already."""
    locked = Agent.objects.select_for_update().get(id=version.agent_id)
    before, newest = find_current_version(locked), locked.versions.first()
    if before == version:
        return
    _point(version.agent, locked, None if version == newest else version)
    details = {"agent": locked.slug, "number": version.number, "before": before.number if before is not None else None}
    record_audit(by=by, action="agent_version.used", target=f"agent_version:{version.id}", details=details)


def _point(agent: Agent, locked: Agent, version: AgentVersion | None) -> None:
    """`agent` is the caller's object, which tells the same from then on."""
    if locked.current_version != version:
        agent.current_version = locked.current_version = version
        locked.save(update_fields=["current_version"])
