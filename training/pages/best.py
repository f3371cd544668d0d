"""Pages of *Train the best*: the form that starts a comparison of candidates, and a comparison with its result."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from decisions.models import Agent
from jobs.models import Job
from jobs.services import request_cancel
from training.errors import InvalidRun
from training.evaluation.measures import find_reach, tone_of
from training.loops.best import KIND, MINUTES, Limits, plan_best, read_comparison, start_best
from training.models import DatasetSnapshot
from training.runs.candidates import COMPARED, PolicyKind, find_tagged_runs
from workspaces.models import Role, Workspace
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, wants_part, workspace_page
from workspaces.pages.polled import Followed, answer_part

AGENTS, DATASETS = 200, 200
KINDS = [(kind.value, kind.says.capitalize()) for kind in PolicyKind]


class BestForm(forms.Form):
    """What the candidates learn from, and the limits of their comparison."""

    agent = forms.ChoiceField()
    dataset = forms.ChoiceField(label="Training data", required=False)
    heldout = forms.ChoiceField(label="Held-out data", required=False)
    kinds = forms.MultipleChoiceField(choices=KINDS, label="Candidates", widget=forms.CheckboxSelectMultiple)
    minutes = forms.FloatField(label="Minutes at most", help_text="What would take longer is left out or stopped.")
    budget = forms.FloatField(label="Money at most", required=False)
    retire_others = forms.BooleanField(label="Retire the versions that do not win", required=False)

    def __init__(self, workspace: Workspace, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agents = {one.slug: one for one in Agent.objects.for_workspace(workspace).order_by("name")[:AGENTS]}
        usable = DatasetSnapshot.objects.for_workspace(workspace).filter(marked_at=None).select_related("agent")
        rows = [one for one in usable.order_by("-id")[:DATASETS] if one.row_kind in COMPARED and not one.environment]
        self.datasets = {str(one.pk): one for one in rows}
        self._choices("agent", [(slug, agent.name) for slug, agent in self.agents.items()])
        named = [(pk, f"{one.agent.name}: {one}") for pk, one in self.datasets.items()]
        self._choices("dataset", [("", "The agent’s newest"), *named])
        answered = [(pk, name) for pk, name in named if self.datasets[pk].has_answers]
        self._choices("heldout", [("", "The agent’s held-out rows"), *answered])
        if not settings.MACHINE_HOUR_PRICE:
            del self.fields["budget"]

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def start(self, request: PageRequest) -> Job:
        """Starts what a valid form asks for. Raises InvalidRun."""
        read = self.cleaned_data
        agent = self.agents[read["agent"]]
        rows = {name: self.datasets.get(read[name]) for name in ("dataset", "heldout")}
        plan, other = plan_best(by=request.actor, agent=agent, **rows)
        kinds = [PolicyKind(kind) for kind in read["kinds"]]
        limits = Limits(read["minutes"], read.get("budget"), kinds, read["retire_others"])
        return start_best(by=request.actor, agent=agent, plan=plan, other=other, limits=limits)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def best_new(request: PageRequest) -> HttpResponse:
    """GET shows the form with the agent's own rows, POST starts the comparison."""
    if request.method == "POST":
        form = BestForm(request.workspace, request.POST)
        if form.is_valid():
            try:
                job = form.start(request)
            except InvalidRun as error:
                for fault in error.faults:
                    form.add_error(fault.field if fault.field in form.fields else None, fault.says)
            else:
                messages.success(request, "The comparison has started.")
                return redirect("pages:best", request.workspace.slug, job.pk)
        return render(request, "training/best_form.html", {"form": form}, status=400)
    initial = {"kinds": [kind.value for kind in PolicyKind], "minutes": f"{MINUTES:g}"}
    initial |= {name: request.GET[name] for name in ("agent", "dataset", "heldout") if name in request.GET}
    return render(request, "training/best_form.html", {"form": BestForm(request.workspace, initial=initial)})


@require_safe
@workspace_page()
def best_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Candidates and, at the end, the result. htmx polls the part until the job is over."""
    job = _get(request, pk)
    runs = find_tagged_runs(request.workspace, job.payload["tag"])
    comparison = read_comparison(runs, job.payload)
    reach = find_reach(*(line.difference for line in comparison.lines))
    context = {
        "job": job,
        "agent": runs[0].agent if runs else None,
        "dataset": runs[0].dataset if runs else None,
        "heldout": runs[0].heldout if runs else None,
        "comparison": comparison,
        "lines": [(line, tone_of(line.difference)) for line in comparison.lines],
        "reach": reach,
        "left": -reach,
        "priced": bool(settings.MACHINE_HOUR_PRICE),
        "cancellable": not job.is_terminal and not job.cancel_requested,
    }
    if wants_part(request):
        return answer_part(request, "training/_best.html", Followed(context, over=job.is_terminal))
    return render(request, "training/best.html", context)


@confirmed(back="pages:best")
def best_cancel(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST has it stop."""
    job = _get(request, pk)
    return Confirmation(
        title="Cancel this comparison?",
        explanation="Candidates that are still being trained are cancelled. Versions that were made stay.",
        button="Cancel the comparison",
        do=lambda: request_cancel(job_id=job.id),
        done="The comparison is stopping.",
    )


def _get(request: PageRequest, pk: uuid.UUID) -> Job:
    """Raises Http404."""
    job: Job | None = Job.objects.for_workspace(request.workspace).filter(kind=KIND, pk=pk).first()
    if job is None:
        raise Http404("Comparison not found.")
    return job
