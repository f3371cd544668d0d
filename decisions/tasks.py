"""Registers the ledger's jobs (rewards, judges, outcomes, partitions, old months), and the tasks by which beat queues
them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from celery import shared_task
from django.conf import settings

from decisions.ingest.item_ends import apply_item_outcomes
from decisions.judges.calibrating import CALIBRATE_JUDGES, calibrate_judge, calibrate_judges
from decisions.judges.ledger import JudgeName
from decisions.labelling.bulk import LABEL_IN_BULK, UNDO_IN_BULK, run_bulk_job
from decisions.labelling.suggesting import SUGGEST_LABELS, suggest_labels
from decisions.models import Agent, RewardDraft, RewardSpec
from decisions.partitions.partitioning import ensure_partitions
from decisions.partitions.retention import drop_old_months
from decisions.rewards.calculate import calculate_due, calculate_rewards
from decisions.rewards.judged import list_left_out
from decisions.rewards.maturing import mature_outcomes
from decisions.rewards.measuring import MEASURE, measure_due
from decisions.rewards.queueing import CALCULATE_REWARDS, HELP_CALCULATE, ask_for_help
from decisions.rewards.specs import current_reward_spec
from decisions.rewards.what_if import TRY_DRAFT, try_draft
from jobs.context import JobContext
from jobs.registry import job_kind
from jobs.services import enqueue_daily, enqueue_job
from models_registry.experiments.holdouts import follow_holdouts
from workspaces.access.actors import system
from workspaces.storage.clock import database_now

MATURE_OUTCOMES = "decisions.mature_outcomes"
MAKE_PARTITIONS = "decisions.make_partitions"
DROP_OLD_MONTHS = "decisions.drop_old_months"


@job_kind(CALCULATE_REWARDS)
def calculate_all_rewards(context: JobContext) -> dict[str, Any]:
    """Every agent with a reward spec, or those of the job's workspace, or the one that the payload names; everything
    pending."""
    agents = Agent.objects.filter(reward_specs__isnull=False).distinct().order_by("id")
    if context.workspace is not None:
        agents = agents.filter(workspace=context.workspace)
    if "agent_id" in context.payload:
        agents = agents.filter(id=context.payload["agent_id"])
    written, left_out = 0, list[dict[str, str]]()
    chosen = list(agents)
    with context.fenced():
        apply_item_outcomes(workspace=context.workspace, again=True)
    for number, agent in enumerate(chosen):
        spec = current_reward_spec(agent)

        def tell(done: int, number: int = number, slug: str = agent.slug) -> None:
            context.progress(number / len(chosen), f"{slug}: {done:,} decisions valued")

        written += calculate_rewards(spec, step=context.fenced, tell=tell, share=ask_for_help).processed
        context.progress((number + 1) / len(chosen), f"{agent.slug}: {written} rewards")
        left_out += list_left_out([spec])
    return {"agents": len(chosen), "rewards": written} | ({"judges_left_out": left_out} if left_out else {})


@job_kind(HELP_CALCULATE)
def help_calculate_rewards(context: JobContext) -> dict[str, Any]:
    spec = RewardSpec.objects.filter(id=context.payload["spec_id"]).first()
    if spec is None:  # the agent was deleted meanwhile
        return {"rewards": 0}

    def tell(done: int) -> None:
        context.progress(0.5, f"{done:,} decisions valued")

    return {"rewards": calculate_due(spec, step=context.fenced, tell=tell).processed}


@job_kind(SUGGEST_LABELS)
def suggest_labels_of_agent(context: JobContext) -> dict[str, Any]:
    agent = Agent.objects.filter(id=context.payload["agent_id"]).first()
    if agent is None:
        return {"labels": 0, "suggested": 0}
    made = suggest_labels(agent, step=context.fenced)
    return {"labels": made.labels, "suggested": made.suggested, "reason": made.reason}


@job_kind(CALIBRATE_JUDGES)
def calibrate_all_judges(context: JobContext) -> dict[str, Any]:
    """The judge that the payload names, or all of every agent."""
    if "agent_id" in context.payload:
        agent = Agent.objects.select_related("workspace").filter(id=context.payload["agent_id"]).first()
        if agent is None:  # it was deleted meanwhile
            return {"judges": 0}
        judge = JudgeName(context.payload["metric"], context.payload["source"])
        by = replace(system(agent.workspace), name=context.payload["by"])
        made = calibrate_judge(by=by, agent=agent, judge=judge, step=context.fenced)
        return {"judges": 1, "verdict": made.verdict}
    judges = 0
    agents = list(Agent.objects.select_related("workspace").order_by("id"))
    for number, agent in enumerate(agents, start=1):
        judges += len(calibrate_judges(by=system(agent.workspace), agent=agent, step=context.fenced))
        context.progress(number / len(agents), f"{judges} judges calibrated")
    return {"judges": judges}


@job_kind(LABEL_IN_BULK)
def label_in_bulk(context: JobContext) -> dict[str, Any]:
    return run_bulk_job(context)


@job_kind(UNDO_IN_BULK)
def undo_labels_in_bulk(context: JobContext) -> dict[str, Any]:
    return run_bulk_job(context)


@job_kind(MEASURE, queue="measuring")
def measure_component(context: JobContext) -> dict[str, Any]:
    assert context.workspace is not None

    def tell(done: int) -> None:
        context.progress(0.5, f"{done:,} decisions measured")

    component = context.payload["component"]
    made = measure_due(component, workspace_id=context.workspace.id, step=context.fenced, tell=tell)
    return {"decisions": made.decisions, "refused": dict(made.refused)}


@job_kind(TRY_DRAFT)
def try_reward_draft(context: JobContext) -> dict[str, Any]:
    draft = RewardDraft.objects.select_related("base", "agent").filter(id=context.payload["draft_id"]).first()
    if draft is None:  # dropped meanwhile
        return {"decisions": 0}

    def tell(done: int, of: int) -> None:
        context.progress(0.95 * done / of, f"{done:,} of {of:,} decisions valued")

    comparison = try_draft(draft, tell=tell)
    with context.fenced():
        RewardDraft.objects.filter(id=draft.id).update(result=msgspec.to_builtins(comparison))
    return {"decisions": comparison.sampled}


@job_kind(MATURE_OUTCOMES)
def mature_all_outcomes(context: JobContext) -> dict[str, Any]:
    matured = mature_outcomes(before_each=context.show_life)
    told = {"experiments": len(matured), "units": sum(item.units for item in matured)}
    return told | {"holdouts": follow_holdouts()}


@job_kind(MAKE_PARTITIONS)
def make_partitions(context: JobContext) -> dict[str, Any]:
    return {"made": ensure_partitions(database_now())}


@job_kind(DROP_OLD_MONTHS)
def drop_old(context: JobContext) -> dict[str, Any]:
    # No fence: a month that is gone is gone, and a second run finds nothing.
    months = settings.KEEP_MONTHS
    dropped = drop_old_months(now=database_now(), months=months, before_each=context.show_life)
    return {"months": len(dropped), "rows": sum(sum(one.rows.values()) for one in dropped)}


# Beat queues the daily jobs every hour: each is made once a day from its hour on, and again when it died. So a job that
# a fault killed, or that was missed while the instance was stopped, is repeated within an hour.


@shared_task(name="decisions.queue_nightly_rewards")
def queue_nightly_rewards() -> None:
    enqueue_daily(kind=CALCULATE_REWARDS, hour=settings.REWARDS_HOUR_UTC)


@shared_task(name="decisions.queue_judges")
def queue_judges() -> None:
    enqueue_daily(kind=CALIBRATE_JUDGES, hour=4)


@shared_task(name="decisions.queue_outcomes")
def queue_outcomes() -> None:
    # Two beats in one minute make one job.
    enqueue_job(kind=MATURE_OUTCOMES, dedupe_key=f"{int(database_now().timestamp()) // 30}")


@shared_task(name="decisions.queue_partitions")
def queue_partitions() -> None:
    enqueue_daily(kind=MAKE_PARTITIONS, hour=1)


@shared_task(name="decisions.queue_retention")
def queue_retention() -> None:
    if settings.KEEP_MONTHS > 0:
        enqueue_daily(kind=DROP_OLD_MONTHS, hour=3)
