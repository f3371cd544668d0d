"""Changes an agent's rewards by a new version of its reward spec, and has them calculated by it.

Pages, the API and the command call `revise_reward_spec`. Two people who edit at once cannot overwrite each other: the
second gets the newest version, and `rebase_content` says what their change means for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from django.db import transaction

from decisions.errors import OutdatedVersion, UnknownAgent
from decisions.models import Agent, RewardSpec
from decisions.rewards.queueing import request_calculation
from decisions.rewards.spec_content import (
    Change,
    SpecContent,
    check_content,
    compare_contents,
    complete,
)
from decisions.rewards.specs import content_of, create_reward_spec
from jobs.models import Job
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault


@dataclass(frozen=True, slots=True)
class Revision:
    """The newest version afterwards; `changes` is empty, and `calculation` None, where no version was made."""

    spec: RewardSpec
    changes: tuple[Change, ...] = ()
    calculation: Job | None = None


@transaction.atomic
def revise_reward_spec(*, by: Actor, agent: Agent, expected: int, content: SpecContent) -> Revision:
    """The next version, and a job that calculates the agent's rewards by it. Unchanged content makes neither.

    `expected` is the number of the version that the caller knew. Raises OutdatedVersion when it is not the newest,
    InvalidRewardSpec with every fault, UnknownAgent for an agent without a reward spec.
    """
    # Whoever makes a version holds this row, so the newest stays the newest until this one is made.
    Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=agent.id)
    newest = get_newest(agent)
    check_expected(newest, expected)
    changes = compare_contents(content_of(newest), complete(content)) if not check_content(content) else None
    if changes == []:
        return Revision(newest)
    spec = create_reward_spec(
        by=by, agent=agent, content=content, changed=[change.field for change in changes or ()]
    )  # refuses what is not usable
    return Revision(spec, tuple(changes or ()), request_calculation(by=by, agent=agent))


def get_newest(agent: Agent) -> RewardSpec:
    """Raises UnknownAgent for an agent without a reward spec."""
    newest: RewardSpec | None = agent.reward_specs.order_by("-number").first()
    if newest is None:
        raise UnknownAgent(f"The agent {agent.slug!r} has no reward spec to change.")
    return newest


def check_expected(newest: RewardSpec, expected: int) -> None:
    """Raises OutdatedVersion."""
    if expected != newest.number:
        raise OutdatedVersion(
            f"The newest reward spec of {newest.agent.slug!r} is {newest.number}, and this change is based on "
            f"{expected}. Read the reward spec again, then repeat the change.",
            faults=[FieldFault("expected_number", f"{expected} is not the newest version", str(newest.number))],
        )


def rebase_content(*, base: SpecContent, mine: SpecContent, newest: SpecContent) -> SpecContent:
    """The newest content with what `mine` changed of `base`; all complete. Where both changed a component or a field,
    `mine` stays."""
    theirs = {one.name: one for one in newest.components}
    before, after = ({one.name: one for one in content.components} for content in (base, mine))
    for name in [*before, *after]:
        if before.get(name) == after.get(name):
            continue
        if name in after:
            theirs[name] = after[name]
        else:
            theirs.pop(name, None)
    others = [field.name for field in fields(SpecContent) if field.name != "components"]
    changed = {name: getattr(mine, name) for name in others if getattr(mine, name) != getattr(base, name)}
    return replace(newest, components=tuple(theirs.values()), **changed)
