"""Pages of environments, of drawing tasks, and of the episodes that a run's models had on held-out tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from decisions.models import Agent
from training.engine.environments.registry import UnknownEnvironment
from training.environments.drawing import LONGEST_NAME, MOST_TASKS, TaskQuestion, start_drawing
from training.environments.episodes import POLICIES, SOLVED, HeldOutTask, find_actor, read_held_out, show_steps
from training.environments.listed import KnownEnvironment, describe_environment, list_environments
from training.environments.success import Success, draw_domains, draw_runs, find_success, list_domains
from training.models import DatasetKind, DatasetSnapshot
from training.runs.shown.lookup import get_run
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, wants_part, workspace_page

PAGE = 25
DATASETS, RUNS = 20, 50
FIRST_DEMONSTRATIONS = 400
"""Suggested where no run has been measured yet: they make a first model."""
_BY_DEFAULT = TaskQuestion(environment="")


class DrawForm(forms.Form):
    """What to draw; the service checks the numbers, as for the API."""

    agent = forms.ChoiceField(help_text="Its model is to learn from the tasks.")
    name = forms.CharField(max_length=LONGEST_NAME)
    tasks = forms.IntegerField(
        label="Tasks to learn from", initial=_BY_DEFAULT.tasks, help_text=f"1 to {MOST_TASKS:,}. A run acts on each."
    )
    held_out = forms.IntegerField(
        label="Held-out tasks",
        initial=_BY_DEFAULT.held_out,
        help_text="Further tasks, on which models are measured. From about 300 on, differences show.",
    )
    demonstrations = forms.IntegerField(
        help_text="Further tasks that are demonstrated. A first model learns from them.",
    )
    wrong = forms.FloatField(
        label="Random steps",
        initial=_BY_DEFAULT.wrong,
        help_text="Share of the demonstrated steps, 0 to 1. They teach a model to recover from mistakes.",
    )
    first = forms.IntegerField(
        label="Number of the first task", initial=0, help_text="The same number always gives the same tasks."
    )

    def __init__(self, agents: Sequence[Agent], environment: KnownEnvironment, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        choices = self.fields["agent"]
        assert isinstance(choices, forms.ChoiceField)
        choices.choices = [(one.slug, one.name) for one in agents]
        if not environment.has_demonstrations:
            for name in ("demonstrations", "wrong"):
                del self.fields[name]
        for field in self.fields.values():
            field.widget.attrs.setdefault("autocomplete", "off")

    def read_question(self, environment: str) -> TaskQuestion:
        """Of a form that was checked."""
        told = self.cleaned_data
        asked = {one.name: told[one.name] for one in fields(TaskQuestion) if one.name in told}
        return TaskQuestion(environment=environment, **asked)

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        for fault in faults:
            self.add_error(fault.field if fault.field in self.fields else None, fault.says)


def _get_environment(name: str) -> KnownEnvironment:
    """Raises Http404."""
    try:
        return describe_environment(name)
    except UnknownEnvironment as error:
        raise Http404("Environment not found.") from error


@require_safe
@workspace_page()
def environment_list(request: PageRequest) -> HttpResponse:
    success = find_success(request.workspace)
    lines = [{"environment": one, "success": success.get(one.name, Success())} for one in list_environments()]
    return render(request, "training/environments/list.html", {"lines": lines})


@require_safe
@workspace_page()
def environment_detail(request: PageRequest, name: str) -> HttpResponse:
    """An example task, what runs solved, and before against after by domain of the newest run."""
    environment = _get_environment(name)
    success = find_success(request.workspace).get(name, Success())
    newest = next((one for one in success.evaluations if "base" in one.scores), None)
    domains = list_domains(newest) if newest is not None else []
    datasets = (
        DatasetSnapshot.objects.for_workspace(request.workspace)
        .filter(kind=DatasetKind.TASKS, query__environment=name)
        .select_related("agent")
        .order_by("-id")[:DATASETS]
    )
    context = {
        "environment": environment,
        "success": success,
        "evaluations": success.evaluations[:RUNS],
        "newest": newest,
        "domains": domains,
        "domain_chart": draw_domains(domains),
        "run_chart": draw_runs(success.evaluations[:RUNS]),
        "datasets": datasets,
    }
    return render(request, "training/environments/detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def environment_draw(request: PageRequest, name: str) -> HttpResponse:
    """GET shows the form, POST queues the job that draws the tasks."""
    environment = _get_environment(name)
    agents = list(Agent.objects.for_workspace(request.workspace).order_by("name"))
    suggested = f"{name.capitalize()}, {timezone.localtime():%-d %b %Y %H:%M:%S}"[:LONGEST_NAME]
    measured = find_success(request.workspace).get(name, Success()).evaluations
    initial = {
        "name": suggested,
        "agent": request.GET.get("agent", ""),
        "demonstrations": 0 if measured else FIRST_DEMONSTRATIONS,
    }
    form = DrawForm(agents, environment, request.POST or None, initial=initial)
    status = 200
    if request.method == "POST":
        status = 400
        agent = next((one for one in agents if one.slug == request.POST.get("agent")), None)
        if form.is_valid() and agent is not None:
            title = form.cleaned_data["name"]
            try:
                job = start_drawing(by=request.actor, agent=agent, name=title, question=form.read_question(name))
            except InvalidInput as error:
                form.add_faults(error.faults)
            else:
                record_audit(
                    by=request.actor, action="dataset.requested", target=f"job:{job.id}", details={"name": title}
                )
                messages.success(request, "The tasks are being drawn.")
                return redirect("pages:dataset-making", request.workspace.slug, job.pk)
    context = {"form": form, "environment": environment, "agents": agents}
    return render(request, "training/environments/draw.html", context, status=status)


@require_safe
@workspace_page()
def run_episodes(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Held-out tasks of a run by one `policy`, narrowed by `solved` and `domain`, by pages that begin at `from`. htmx
    asks for the part that the run's page shows."""
    run = get_run(request, pk)
    policy = _read_policy(request)
    found = read_held_out(run, policy)
    wanted = request.GET.get("solved", "")
    if wanted not in SOLVED:
        wanted = ""
    domain = request.GET.get("domain", "")
    start = _read_place(request.GET.get("from", ""))
    fitting = [one for one in found or () if one.fits(wanted) and domain in ("", one.any.domain)]
    page = fitting[start : start + PAGE]
    asked = (("policy", "" if policy == "serving" else policy), ("solved", wanted), ("domain", domain))
    chosen = {name: value for name, value in asked if value}
    later = urlencode(chosen | {"from": start + PAGE}) if start + PAGE < len(fitting) else ""
    context = {
        "run": run,
        "readable": found is not None,
        "all": len(found or ()),
        "count": len(fitting),
        "tasks": page,
        "policy": policy,
        "policies": POLICIES.items(),
        "wanted": wanted,
        "parts": SOLVED.items(),
        "domain": domain,
        "domains": sorted({one.any.domain for one in found or ()} - {""}),
        "query": urlencode(chosen),
        "later": later,
        "before": start or "",
    }
    template = "training/environments/_episodes.html" if wants_part(request) else "training/environments/episodes.html"
    return render(request, template, context)


def _read_policy(request: PageRequest) -> str:
    policy = request.GET.get("policy", "")
    return policy if policy in POLICIES else "serving"


def _read_place(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


@require_safe
@workspace_page()
def run_episode(request: PageRequest, pk: uuid.UUID, place: int) -> HttpResponse:
    """What base and trained model did on one held-out task by one `policy`, step by step, beside each other."""
    run = get_run(request, pk)
    policy = _read_policy(request)
    found = read_held_out(run, policy) or []
    task = _find_task(found, place)
    acted = [
        (title, one, version)
        for title, one, version in (
            ("Base", task.base, run.base_version),
            ("Trained", task.trained, run.produced_version),
        )
        if one is not None
    ]
    context = {
        "run": run,
        "task": task,
        "policy": policy,
        "policies": POLICIES.items(),
        "columns": [(title, one, list(show_steps(one)), find_actor(one, version)) for title, one, version in acted],
        "earlier": place - 1 if place > 1 else None,
        "later": place + 1 if place < len(found) else None,
        "count": len(found),
    }
    return render(request, "training/environments/episode.html", context)


def _find_task(found: Sequence[HeldOutTask], place: int) -> HeldOutTask:
    """Raises Http404."""
    if not 1 <= place <= len(found):
        raise Http404("Episode not found.")
    return found[place - 1]
