"""Queues a job that calculates the rewards of one workspace or agent now, for a person or a program.

The daily job of all workspaces is of the same kind; `decisions.tasks` holds the handler of both.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q, QuerySet

from decisions.models import Agent, RewardDue, RewardSpec
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.models import Workspace

CALCULATE_REWARDS = "decisions.calculate_rewards"
HELP_CALCULATE = "decisions.help_calculate_rewards"
"""Takes part in a calculation that another job began, and ends with it."""
SHARE_FROM = 50_000
"""Decisions that are due for each job that takes part; with fewer the first job works alone."""
MOST_HELPERS = 15
UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)


def find_calculations(workspace: Workspace) -> QuerySet[Job]:
    """Those that were asked for in the workspace, newest first."""
    found: QuerySet[Job] = Job.objects.for_workspace(workspace).filter(kind=CALCULATE_REWARDS).order_by("-id")
    return found


def find_all_calculations(workspace: Workspace) -> QuerySet[Job]:
    """The same and the daily ones. A daily job's result, message and error speak of all workspaces: show none of it."""
    return Job.objects.filter(Q(workspace=workspace) | Q(workspace=None), kind=CALCULATE_REWARDS).order_by("-id")


def ask_for_help(spec: RewardSpec) -> None:
    """Jobs for the workers that are free, where much is due. One that finds nothing left to do ends at once."""
    due = RewardDue.objects.filter(spec=spec)[: SHARE_FROM * (MOST_HELPERS + 1)].count()
    for _ in range(min(MOST_HELPERS, due // SHARE_FROM)):
        enqueue_job(kind=HELP_CALCULATE, workspace=spec.workspace, payload={"spec_id": str(spec.id)})


@transaction.atomic
def request_calculation(*, by: Actor, agent: Agent | None = None) -> Job:
    """The workspace's calculation that waits or works, or a new one where there is none.

    With `agent`, a new one of this agent alone: one that works may have passed the agent before its reward spec
    changed."""
    if agent is not None:
        return _queue(by, {"requested_by": by.name, "agent_id": str(agent.id)})
    # A simultaneous request waits here, and finds the first one's job.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    whole = find_calculations(by.workspace).exclude(payload__has_key="agent_id")
    under_way = whole.filter(state__in=UNDER_WAY).first()
    return under_way or _queue(by, {"requested_by": by.name})


def _queue(by: Actor, payload: dict[str, str]) -> Job:
    job = enqueue_job(kind=CALCULATE_REWARDS, workspace=by.workspace, payload=payload)
    record_audit(by=by, action="rewards.requested", target=f"job:{job.id}")
    return job
