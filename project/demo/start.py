"""Starts the demo, for the button of an empty workspace, `manage.py bootstrap` and the tests."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from decisions.models import Agent, Decision
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from project.demo.loop import AGENT, KIND
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import Conflict
from workspaces.models import Workspace

FIRST_KEY = "demo"


class WorkspaceInUse(Conflict):
    """The demo's decisions would lie among an app's own."""

    code = "workspace_in_use"


@transaction.atomic
def start_demo(*, by: Actor) -> Job:
    """The demo loop's job of the actor's workspace: the one that is there, or a new one.

    A loop that died or was cancelled goes on where it was, in a new job. Raises WorkspaceInUse where the workspace
    holds decisions or an agent of the demo's name that the demo did not make.
    """
    # The workspace's row is the lock: two presses of the button start one loop.
    workspace = Workspace.objects.select_for_update().get(id=by.workspace.id)
    last = Job.objects.for_workspace(workspace).filter(kind=KIND).order_by("-created_at").first()
    if last is not None and last.state not in (JobState.DEAD, JobState.CANCELLED):
        return last
    if last is None:
        _check_unused(workspace)
    # The first of an instance has the key that `demo wait` and older instances know.
    key = FIRST_KEY if last is None and not Job.objects.filter(kind=KIND).exists() else None
    job = enqueue_job(
        kind=KIND, workspace=workspace, payload={"seed": settings.DEMO_SEED}, dedupe_key=key, max_attempts=3
    )
    record_audit(by=by, action="demo.started", target=f"job:{job.id}")
    return job


def _check_unused(workspace: Workspace) -> None:
    if Decision.objects.for_workspace(workspace).exists():
        raise WorkspaceInUse("The workspace already has decisions. The demo needs an empty workspace.")
    if Agent.objects.for_workspace(workspace).filter(slug=AGENT).exists():
        raise WorkspaceInUse(f"The workspace has an agent {AGENT}; the demo creates its own agent with that name.")
