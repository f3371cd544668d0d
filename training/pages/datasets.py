"""Pages of datasets: the list, one dataset, and making one with a preview."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from decisions.models import Agent, AgentVersion, RewardSpec
from jobs.models import Job, JobState
from training.datasets.downloads import send_rows
from training.datasets.freezing import KIND, MOST_HELD_OUT, REWARDED, start_freezing
from training.datasets.label_preview import preview_labels
from training.datasets.other_formats import AS_FROZEN, FILES, LINES, formats_of
from training.datasets.preview import by_count, preview_datasets, show_examples, tell_left_out, tell_sources
from training.datasets.shown_rows import show_rows
from training.environments import drawing as task_datasets
from training.environments.shown_tasks import show_tasks
from training.loops.first_model import services as first_models
from training.models import LEDGER_KINDS, DatasetKind, DatasetSnapshot, TrainingRun
from training.pages.dataset_filters import read_filters
from training.pages.runs import as_id
from training.rows.labels import LEAST_CONFIDENCE, LabelQuestion
from training.rows.selection import Filters
from training.runs.defaults.values import find_defaults
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, wants_part, workspace_page

PAGE = 25
RUNS = 20
AGENTS = 200
VERSIONS = 50
LONGEST_NAME = 200
NEW, ALL = "new", "all"
MAKING = (KIND, task_datasets.KIND, first_models.KIND)
"""Kinds of jobs that make datasets."""
KIND_TITLES: Mapping[str, str] = {
    DatasetKind.LOGGED: "Rewarded decisions",
    DatasetKind.LABELLED: "People’s labels",
    DatasetKind.PREFERENCES: "Preference pairs",
    DatasetKind.TEXT: "Rewarded texts",
}
NAMES: Mapping[str, str] = {
    DatasetKind.LOGGED: "decisions",
    DatasetKind.LABELLED: "labels",
    DatasetKind.PREFERENCES: "corrections",
    DatasetKind.TEXT: "texts",
}
"""What a new dataset's name says that it holds."""


@require_safe
@workspace_page()
def dataset_list(request: PageRequest) -> HttpResponse:
    """Newest first, read by cursor."""
    found = (
        DatasetSnapshot.objects.for_workspace(request.workspace)
        .select_related("agent")
        .annotate(used=Count("runs"))
        .order_by("-id")
    )
    before = request.GET.get("before", "")
    if before:
        found = found.filter(id__lt=as_id(before, "before"))
    page = list(found[: PAGE + 1])
    older = urlencode({"before": page[PAGE - 1].id}) if len(page) > PAGE else ""
    context = {"datasets": page[:PAGE], "older": older, "before": before}
    return render(request, "training/datasets.html", context)


@require_safe
@workspace_page()
def dataset_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """`at` of the query: where in the file the rows begin that are shown."""
    dataset = _find_dataset(request, pk)
    runs = TrainingRun.objects.filter(dataset=dataset) | TrainingRun.objects.filter(heldout=dataset)
    runs |= TrainingRun.objects.filter(replay=dataset)
    context = {
        "dataset": dataset,
        "sources": tell_sources(dataset.statistics.get("sources", {}).items()),
        "left_out": tell_left_out(dataset.statistics.get("left_out", {}).items()),
        "filters": _tell_filters(dataset),
        "actions": by_count(dataset.statistics.get("actions", {}).items()),
        "one_sided": _tell_one_sided(dataset),
        "other_part": _find_linked(dataset, "held_out", "held_out_of"),
        "demonstrations": _find_linked(dataset, "demonstrations", "demonstrates"),
        "tasks": show_tasks(dataset),
        "page": show_rows(dataset, request.GET.get("at", "")),
        "formats": formats_of(dataset),
        "files": FILES,
        "unused_at": dt.datetime.fromisoformat(dataset.query["unused_at"]) if "unused_at" in dataset.query else None,
        "runs": runs.select_related("produced_version__registered_model").order_by("-id")[:RUNS],
    }
    return render(request, "training/dataset.html", context)


@require_safe
@workspace_page()
def dataset_rows(request: PageRequest, pk: uuid.UUID) -> StreamingHttpResponse:
    """The rows as a file, in this `format` and as this kind of `file`."""
    dataset = _find_dataset(request, pk)
    return send_rows(dataset, request.GET.get("format", AS_FROZEN), request.GET.get("file", LINES))


def _find_dataset(request: PageRequest, pk: uuid.UUID) -> DatasetSnapshot:
    """Raises Http404."""
    datasets = DatasetSnapshot.objects.for_workspace(request.workspace)
    dataset = datasets.select_related("agent", "artifact", "reward_spec", "workspace").filter(pk=pk).first()
    if dataset is None:
        raise Http404("Dataset not found.")
    return dataset


def _tell_filters(dataset: DatasetSnapshot) -> list[tuple[str, Any]]:
    """What its decisions were narrowed to, in words."""
    told = Filters.from_plain(dataset.query)
    lines = [
        ("Recorded from", told.since),
        ("Recorded before", told.until),
        ("Decided by", told.policy),
        ("Unit", told.unit),
        ("Least raw reward", told.min_reward),
        ("Propensity", "only decisions with one" if told.with_propensity else None),
        ("Incomplete answers", "included" if told.incomplete else None),
        ("Feedback", "also decisions that nobody judged" if told.unjudged else None),
    ]
    return [(name, value) for name, value in lines if value is not None]


def _tell_one_sided(dataset: DatasetSnapshot) -> str:
    """ "right" or "wrong" where all its rows were so."""
    right, wrong = dataset.statistics.get("right"), dataset.statistics.get("wrong")
    if right is None or wrong is None or (right and wrong):
        return ""
    return "right" if right else "wrong"


def _find_linked(dataset: DatasetSnapshot, *names: str) -> DatasetSnapshot | None:
    """The first that its statistics name."""
    other = next((found for name in names if (found := dataset.statistics.get(name))), None)
    return DatasetSnapshot.objects.for_workspace(dataset.workspace).filter(pk=other).first() if other else None


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def dataset_make(request: PageRequest) -> HttpResponse:
    """GET shows what a dataset would hold, by `agent`, `version`, `which`, `kind`, the filters, and for labels by
    `suggestions` and `least_confidence`; `shown_agent` is the one before another was picked. POST queues the job that
    makes it."""
    asked = request.POST if request.method == "POST" else request.GET
    agents = list(Agent.objects.for_workspace(request.workspace).order_by("name")[:AGENTS])
    agent = _find_agent(agents, asked.get("agent", ""))
    if agent is None:
        return render(request, "training/dataset_form.html", {"agent": None})
    versions = list(agent.versions.order_by("-number")[:VERSIONS])
    version = _find_version(versions, asked.get("version", ""))
    which = NEW if asked.get("which") == NEW else ALL
    kind = str(asked.get("kind", ""))
    switched = asked.get("shown_agent", agent.slug) != agent.slug
    if kind not in LEDGER_KINDS or (switched and kind in REWARDED):
        kind = _usual_kind([version] if version is not None else versions)
    now = timezone.now()
    unused_at = now if which == NEW else None
    rewarded = kind in REWARDED
    least = _read_confidence(asked) if not rewarded and "suggestions" in asked else None
    narrowed = read_filters(asked, kind=kind)
    spec = _find_spec(agent, str(asked.get("reward_spec", ""))) if rewarded else None
    negatives = "synthetic_negatives" in asked and kind != DatasetKind.LABELLED
    if request.method == "POST":
        name = _read_name(asked.get("name", ""))
        job = start_freezing(
            by=request.actor,
            agent=agent,
            name=name,
            kind=kind,
            unused_at=unused_at,
            least_confidence=least,
            filters=narrowed.filters,
            held_out=narrowed.held_out,
            negatives=negatives,
            reward_spec=spec.number if spec is not None else None,
            agent_version=version.number if version is not None else None,
        )
        record_audit(by=request.actor, action="dataset.requested", target=f"job:{job.id}", details={"name": name})
        messages.success(request, "The dataset is queued.")
        return redirect("pages:dataset-making", request.workspace.slug, job.pk)
    if rewarded:
        preview = preview_datasets(
            [agent],
            kind=kind,
            agent_version=version,
            unused_at=unused_at,
            filters=narrowed.filters,
            reward_spec=spec.number if spec is not None else None,
        )[agent.id]
    else:
        preview = preview_labels(agent, LabelQuestion(kind, version, unused_at, least, narrowed.filters, negatives))
    context: dict[str, Any] = {
        "agents": agents,
        "agent": agent,
        "versions": versions,
        "version": version,
        "which": which,
        "kind": kind,
        "kinds": KIND_TITLES.items(),
        "rewarded": rewarded,
        "given": narrowed.given,
        "most_held_out": round(100 * MOST_HELD_OUT),
        "suggestions": least is not None,
        "least_confidence": LEAST_CONFIDENCE if least is None else least,
        "preview": preview,
        "examples": show_examples(preview.examples, dict(zip(preview.examples, preview.answers, strict=False))),
        "negatives": negatives,
        "chosen_spec": spec,
        "specs": agent.reward_specs.order_by("-number")[:VERSIONS] if rewarded else [],
        "spec": spec or agent.reward_specs.first(),
        "heldout": find_defaults(request.workspace, [agent])[agent.id].heldout,
        "name": _suggest_name(agent, kind, which, now),
    }
    return render(request, "training/dataset_form.html", context)


def _usual_kind(versions: list[AgentVersion]) -> str:
    """What rewarded decisions of these versions become."""
    chats = bool(versions) and all(version.chats for version in versions)
    return (DatasetKind.TEXT if chats else DatasetKind.LOGGED).value


def _suggest_name(agent: Agent, kind: str, which: str, now: dt.datetime) -> str:
    what = NAMES[kind]
    rows = f"New {what}" if which == NEW else what.capitalize()
    return f"{rows} of {agent.name}, {now:%-d %b %Y %H:%M:%S}"[:LONGEST_NAME]


def _read_confidence(asked: Mapping[str, Any]) -> float:
    """LEAST_CONFIDENCE where none is given. Raises InvalidInput."""
    given = asked.get("least_confidence", "")
    try:
        value = float(given) if given else LEAST_CONFIDENCE
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:  # NaN too
        raise InvalidInput(
            "The dataset was not made.",
            faults=[FieldFault("least_confidence", f"{given[:40]!r} is out of range", "a number from 0 to 1")],
        )
    return value


def _find_agent(agents: list[Agent], slug: str) -> Agent | None:
    """The first one where none is named; None without any. Raises Http404 for one that is not there."""
    if not slug:
        return agents[0] if agents else None
    found = next((one for one in agents if one.slug == slug), None)
    if found is None:
        raise Http404("Agent not found.")
    return found


def _find_version(versions: list[AgentVersion], number: str) -> AgentVersion | None:
    """None for all. Raises Http404."""
    if not number:
        return None
    found = next((one for one in versions if str(one.number) == number), None)
    if found is None:
        raise Http404("Agent version not found.")
    return found


def _find_spec(agent: Agent, number: str) -> RewardSpec | None:
    """None for the newest. Raises Http404."""
    if not number:
        return None
    found = agent.reward_specs.filter(number=int(number)).first() if number.isdecimal() and len(number) <= 9 else None
    if found is None:
        raise Http404("Reward spec not found.")
    return found


def _read_name(given: str) -> str:
    name = given.strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        reason = "is empty" if not name else f"has {len(name)} characters"
        raise InvalidInput(
            "The dataset was not made.", faults=[FieldFault("name", reason, f"1 to {LONGEST_NAME} characters")]
        )
    return name


@require_safe
@workspace_page()
def dataset_making(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """How far the job is that makes a dataset, and a run where one was asked for with it; then it leads there. htmx
    polls the part."""
    job = Job.objects.for_workspace(request.workspace).filter(kind__in=MAKING, pk=pk).first()
    if job is None:
        raise Http404("Dataset not found.")
    if job.state == JobState.SUCCEEDED and job.result:
        name = next(name for name in ("best", "run", "dataset") if name in job.result)
        place = reverse(f"pages:{name}", args=[request.workspace.slug, job.result[name]])
        return HttpResponseClientRedirect(place) if wants_part(request) else redirect(place)
    template = "training/_dataset_making.html" if wants_part(request) else "training/dataset_making.html"
    return render(request, template, {"job": job})
