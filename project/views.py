"""Pages that need every floor: the loop as it stands, and what Django shows when something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from decisions.models import Agent, Decision, Feedback, Reward
from jobs.models import Job, JobState
from models_registry.models import Alias, AliasName, Experiment
from training.models import DatasetSnapshot, TrainingRun
from workspaces.api_errors import json_error
from workspaces.errors import InvalidInput, NotAllowed, NotFound, ReckonerError
from workspaces.pages import STOP_POLLING, PageRequest, workspace_page

DEMO_LOOP = "project.demo_loop"
JOBS = 5
CHAMPIONS = 20
MOST_COUNTED = 1_000_000
"""Counting stops here: the page is polled, and a large ledger must not be read from end to end each time."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One station of the loop: how much is there, and where to look."""

    title: str
    count: int
    says: str
    url: str = ""

    @property
    def uncounted(self) -> bool:
        """There are more than were counted."""
        return self.count > MOST_COUNTED

    @property
    def shown(self) -> int:
        return min(self.count, MOST_COUNTED)


@dataclass(frozen=True, slots=True)
class Step:
    """What a person would do next."""

    title: str
    says: str
    url: str = ""
    action: str = ""


def _stages(request: PageRequest) -> list[Stage]:
    workspace = request.workspace

    def page(name: str) -> str:
        return reverse(f"pages:{name}", args=[workspace.slug])

    return [
        Stage("Decisions", _count(Decision.objects, request), "made by agents", page("decisions")),
        Stage("Feedback", _count(Feedback.objects, request), "observed afterwards"),
        Stage("Rewards", _count(Reward.objects, request), "reckoned from it"),
        Stage("Datasets", _count(DatasetSnapshot.objects, request), "frozen for training"),
        Stage("Runs", _count(TrainingRun.objects, request), "of training", page("runs")),
        Stage("Experiments", _count(Experiment.objects, request), "on live traffic", page("experiments")),
    ]


def _count(rows: Any, request: PageRequest) -> int:
    return int(rows.for_workspace(request.workspace).order_by()[: MOST_COUNTED + 1].count())


def _next_step(request: PageRequest, stages: list[Stage], champions: list[Alias], has_agent: bool) -> Step | None:
    """The first gap in the loop. None when every station has something."""
    count = {stage.title: stage.count for stage in stages}
    slug = request.workspace.slug
    if not has_agent:
        return Step(
            "Begin with an agent",
            "An agent decides: it has options, a prompt template and a model. Create one through the API "
            "(POST /api/v1/agents), or start Reckoner with an empty ledger: it loads its demo world.",
            reverse("api-docs"),
            "Read the API",
        )
    if not count["Decisions"] and not champions:
        return Step(
            "Give the agent a model",
            "No model version serves yet. Train the first one from labelled rows, or record decisions of another "
            "model: POST /api/v1/decisions.",
            reverse("api-docs"),
            "Read the API",
        )
    if not count["Decisions"]:
        return Step(
            "Ask the agent to decide",
            "Each answer of POST /api/v1/agents/…/decide is recorded here with its propensity.",
            reverse("api-docs"),
            "Read the API",
        )
    if not count["Feedback"]:
        return Step(
            "Say which decisions were right",
            "Judge by keyboard: c confirms, x corrects. Or send feedback from your app: POST /api/v1/feedback.",
            reverse("pages:decisions", args=[slug]),
            "Judge decisions",
        )
    if not count["Rewards"]:
        return Step("Rewards come by night", "Feedback is there; the nightly job reckons what each decision was worth.")
    if not count["Runs"]:
        return Step(
            "Train on what was learnt",
            "Freeze a dataset (POST /api/v1/datasets) and start a run on it (POST /api/v1/runs).",
            reverse("pages:runs", args=[slug]),
            "See runs",
        )
    if not count["Experiments"]:
        return Step(
            "Try the new model on live traffic",
            "A version that passed its gate can be tried against the champion: POST /api/v1/experiments.",
            reverse("pages:models", args=[slug]),
            "See models",
        )
    return None


def _running(request: PageRequest) -> QuerySet[Job]:
    found: QuerySet[Job] = Job.objects.for_workspace(request.workspace).filter(
        state__in=(JobState.QUEUED, JobState.RUNNING)
    )
    return found


def _loop(request: PageRequest) -> dict[str, Any]:
    stages = _stages(request)
    champions = list(
        Alias.objects.for_workspace(request.workspace)
        .filter(name=AliasName.CHAMPION)
        .select_related("version__registered_model")
        .order_by("registered_model__name")[:CHAMPIONS]
    )
    running = list(_running(request).order_by("-created_at")[:JOBS])
    # The demo loop is what a newcomer waits for: its last one is shown also when it is over.
    last_demo = Job.objects.for_workspace(request.workspace).filter(kind=DEMO_LOOP).order_by("-created_at").first()
    if last_demo is not None and last_demo.is_terminal:
        running.insert(0, last_demo)
    has_agent = Agent.objects.for_workspace(request.workspace).exists()
    return {
        "stages": stages,
        "champions": champions,
        "working": running,
        "busy": any(not job.is_terminal for job in running),
        "next_step": _next_step(request, stages, champions, has_agent),
        "experiment": Experiment.objects.for_workspace(request.workspace)
        .select_related("registered_model")
        .order_by("-id")
        .first(),
    }


@require_safe
@workspace_page()
def overview(request: PageRequest) -> HttpResponse:
    return render(request, "project/overview.html", _loop(request))


@require_safe
@workspace_page()
def loop(request: PageRequest) -> HttpResponse:
    """The part that htmx polls while jobs are under way."""
    context = _loop(request)
    return render(request, "project/_loop.html", context, status=200 if context["busy"] else STOP_POLLING)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _wrong(request, 400, InvalidInput("The request is not usable."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _wrong(request, 403, NotAllowed(str(exception) or "This is not allowed."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _wrong(request, 404, NotFound("There is no such thing here."))


class Fault(ReckonerError):
    status = 500
    code = "server_error"


def server_error(request: HttpRequest) -> HttpResponse:
    """No context processors: the database may be what failed."""
    error = Fault("Something went wrong on our side. It has been logged.")
    if request.path.startswith("/api/"):
        return json_error(request, error)
    request_id = getattr(request, "request_id", "")
    return HttpResponse(render_to_string("errors/500.html", {"error": error, "request_id": request_id}), status=500)


def _wrong(request: HttpRequest, status: int, error: ReckonerError) -> HttpResponse:
    """JSON under /api, else a plain page."""
    if request.path.startswith("/api/"):
        return json_error(request, error)
    return render(request, "errors/error.html", {"error": error, "status": status}, status=status)
