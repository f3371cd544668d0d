"""What-if: values an agent's history by a drafted reward spec, before anybody publishes it. No reward is written.

A draft is a row; a job compares it with the version that it is based on, over the same decisions and the same facts,
and leaves the comparison on the row. Publishing makes the draft the next version, dropping deletes it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence

import msgspec
from django.db import transaction
from django.utils import timezone

from decisions.errors import DraftPublished, InvalidRewardSpec
from decisions.models import Agent, Decision, RewardDraft, RewardSpec
from decisions.rewards.calculate import CHUNK, plan_of
from decisions.rewards.comparison import Case, Comparison, compare_cases
from decisions.rewards.due import sample_rewardable
from decisions.rewards.gathering import Gathered, gather_facts
from decisions.rewards.judged import find_judge_faults, judges_that_count
from decisions.rewards.revising import Revision, check_expected, get_newest, revise_reward_spec
from decisions.rewards.spec_content import (
    SpecContent,
    check_content,
    compare_contents,
    complete,
    plain_content,
    read_content,
    stored_components,
)
from decisions.rewards.specs import content_of
from decisions.rewards.valuing import Plan, make_plan
from jobs.models import TERMINAL
from jobs.services import enqueue_job, request_cancel
from models_registry.models import ModelVersion
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, NotFound

TRY_DRAFT = "decisions.try_reward_draft"
MOST_DECISIONS = 20_000
"""Of more, a sample is valued."""
SEED = 1


@transaction.atomic
def draft_reward_spec(*, by: Actor, agent: Agent, expected: int, content: SpecContent) -> RewardDraft:
    """A draft based on the newest version, and the job that tries it on history.

    Raises OutdatedVersion when `expected` is not the newest version, InvalidRewardSpec for what is not usable or
    differs in nothing.
    """
    base = get_newest(agent)
    check_expected(base, expected)
    if faults := check_content(content) or find_judge_faults(agent, content.judges):
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    full = complete(content)
    if not compare_contents(content_of(base), full):
        fault = FieldFault("components", f"nothing differs from version {base.number}", "at least one change")
        raise InvalidRewardSpec("The draft changes nothing.", faults=[fault])
    draft = RewardDraft(workspace=by.workspace, agent=agent, base=base, content=plain_content(full), made_by=by.name)
    draft.job = enqueue_job(kind=TRY_DRAFT, workspace=by.workspace, payload={"draft_id": str(draft.id)})
    draft.save(force_insert=True)
    record_audit(by=by, action="reward_draft.created", target=f"reward_draft:{draft.id}", details={"agent": agent.slug})
    return draft


@transaction.atomic
def publish_draft(*, by: Actor, draft: RewardDraft) -> Revision:
    """The draft as the next version. Raises OutdatedVersion when there is a newer one than it is based on, and
    DraftPublished the second time."""
    found = _take(by, draft)
    revision = revise_reward_spec(
        by=by, agent=found.agent, expected=found.base.number, content=read_content(found.content)
    )
    found.published = revision.spec
    found.save(update_fields=["published"])
    return revision


@transaction.atomic
def drop_draft(*, by: Actor, draft: RewardDraft) -> None:
    """Deletes the draft, and its job where that waits. Raises DraftPublished for one that is a version."""
    found = _take(by, draft)
    if found.job is not None and found.job.state not in TERMINAL:
        request_cancel(job_id=found.job.id)
    record_audit(
        by=by, action="reward_draft.dropped", target=f"reward_draft:{found.id}", details={"agent": found.agent.slug}
    )
    found.delete()


def delete_old_drafts(before: dt.datetime) -> Iterator[int]:
    """Drafts that were made before then and not published; yields how many went. Called by the daily job."""
    gone, _ = RewardDraft.objects.filter(created_at__lt=before, published=None).delete()
    yield gone


def _take(by: Actor, draft: RewardDraft) -> RewardDraft:
    drafts = RewardDraft.objects.for_workspace(by.workspace).select_for_update(of=("self",))
    found: RewardDraft | None = drafts.select_related("agent", "base", "job", "published").filter(id=draft.id).first()
    if found is None:
        raise NotFound("The draft does not exist any more.")
    if found.published is not None:
        raise DraftPublished(f"The draft is published: it is version {found.published.number}.")
    return found


def read_result(draft: RewardDraft) -> Comparison | None:
    """None until the job has valued the history."""
    return None if draft.result is None else msgspec.convert(draft.result, Comparison)


def try_draft(
    draft: RewardDraft, *, most: int = MOST_DECISIONS, tell: Callable[[int, int], None] = lambda done, all: None
) -> Comparison:
    """Values the agent's history by the draft and by the version that it is based on. Writes nothing.

    Both read the same facts at the same moment, whatever rewards are stored. `tell` hears how many of how many
    decisions are done. Raises KeyError for a component that is not installed any more.
    """
    plans = plan_of(draft.base), _plan_of_content(draft.agent, read_content(draft.content))
    decisions, population = sample_rewardable(draft.base, plans, most=most, seed=SEED)
    cases: list[Case] = []
    for start in range(0, len(decisions), CHUNK):
        cases += _value(draft.base, plans, decisions[start : start + CHUNK])
        tell(min(start + CHUNK, len(decisions)), len(decisions))
    return compare_cases(cases, population=population, seed=SEED)


def _plan_of_content(agent: Agent, content: SpecContent) -> Plan:
    full = complete(content)
    return make_plan(
        stored_components(full),
        clamp=full.clamp,
        low=full.low,
        high=full.high,
        unknown=full.unknown,
        credit=full.credit,
        discount=full.discount,
        judges=None if full.judges is None else judges_that_count(agent, full.judges),
    )


def _value(spec: RewardSpec, plans: tuple[Plan, Plan], chunk: Sequence[uuid.UUID]) -> Iterator[Case]:
    before, after = plans
    asked = Decision.objects.filter(id__in=chunk, id__gte=chunk[0], id__lte=chunk[-1])
    rows = {row[0]: row[1:] for row in asked.values_list("id", "model_version_id", "policy_name", "unit")}
    versions = ModelVersion.objects.select_related("registered_model").in_bulk(
        {version for version, _, _ in rows.values() if version is not None}
    )
    facts = list(_gather(spec, plans, chunk, before.judges))
    others = facts if after.judges == before.judges else list(_gather(spec, plans, chunk, after.judges))
    for gathered, other in zip(facts, others, strict=True):
        version, policy, unit = rows[gathered.decision]
        yield Case(
            decision=str(gathered.decision),
            actor=policy if version is None else str(versions[version]),
            cluster=unit or str(gathered.decision),
            before=before.value(gathered.facts),
            after=after.value(other.facts),
        )


def _gather(
    spec: RewardSpec, plans: tuple[Plan, Plan], chunk: Sequence[uuid.UUID], judges: frozenset[str] | None
) -> Iterator[Gathered]:
    before, after = plans
    return gather_facts(
        workspace_id=spec.workspace_id,
        agent_id=spec.agent_id,
        groups=before.reads | after.reads,
        credited=before.shares_credit or after.shares_credit,
        compared=before.compares or after.compares,
        moments=dict.fromkeys(chunk),
        now=timezone.now(),
        judges=judges,
    )
