"""Pages of evaluation suites: the list, one suite with its versions, making one, and reading one evaluation."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.models import Job, JobState
from models_registry.models import NO_POLICIES, ModelVersion
from models_registry.versions.references import find_version
from training.evaluation.suites import SCORE
from training.evaluation.suites.api import select_scores
from training.evaluation.suites.services import LONGEST_NAME, SuitePlan, compare_scores, create_suite, start_scoring
from training.evaluation.suites.shown import draw_calibration, draw_versions, list_errors, list_measures, list_parts
from training.models import DatasetKind, DatasetSnapshot, EvaluationSuite, SuiteScore
from workspaces.errors import Conflict, FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

MOST = 100
ERRORS_SHOWN = 8


class SuiteForm(forms.Form):
    """A suite of one of the workspace's datasets of labelled rows or texts; the agent is the dataset's."""

    dataset = forms.ModelChoiceField(
        DatasetSnapshot.objects.none(),
        label="Rows",
        empty_label="Choose a dataset",
        help_text="Labelled rows, or texts, of which only the right ones are used. No run should learn from them: a "
        "version that did is marked.",
    )
    name = forms.CharField(max_length=LONGEST_NAME, help_text="What the rows ask for, such as “Tickets of March”.")
    slice_by = forms.CharField(
        max_length=63,
        required=False,
        label="Slices by",
        help_text="A field of the rows, such as group. Leave empty for none.",
    )

    def __init__(self, request: PageRequest, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        found = DatasetSnapshot.objects.for_workspace(request.workspace).select_related("agent", "artifact")
        field = self.fields["dataset"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = found.filter(kind__in=(DatasetKind.LABELLED, DatasetKind.TEXT), marked_at=None).order_by("-id")
        for one in self.fields.values():  # help and faults are read with their field
            one.widget.attrs.setdefault("autocomplete", "off")


@require_safe
@workspace_page()
def suite_list(request: PageRequest) -> HttpResponse:
    """Newest first, each with what the newest scored version reached."""
    suites = list(
        EvaluationSuite.objects.for_workspace(request.workspace)
        .select_related("agent", "dataset")
        .annotate(versions=Count("scores"))
        .order_by("-id")[:MOST]
    )
    newest: dict[uuid.UUID, SuiteScore] = {}
    scores = SuiteScore.objects.filter(suite__in=suites).order_by("suite", "-version__number").distinct("suite")
    for score in select_scores(scores):
        newest[score.suite_id] = score
    context = {"lines": [{"suite": suite, "score": newest.get(suite.id)} for suite in suites]}
    return render(request, "training/suites/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def suite_new(request: PageRequest) -> HttpResponse:
    status = 200
    form = SuiteForm(request, request.POST or None, initial={"dataset": request.GET.get("dataset")})
    if request.method == "POST":
        status = 400
        if form.is_valid():
            dataset = form.cleaned_data["dataset"]
            plan = SuitePlan(form.cleaned_data["name"].strip(), dataset, form.cleaned_data["slice_by"].strip())
            try:
                suite = create_suite(by=request.actor, agent=dataset.agent, plan=plan)
            except InvalidInput as error:
                for fault in error.faults:
                    form.add_error(fault.field if fault.field in form.fields else None, f"{fault.reason}.")
            except Conflict as error:
                form.add_error(None, error.message)
            else:
                messages.success(request, "The suite is ready. New versions are scored on it.")
                return redirect("pages:suite", request.workspace.slug, suite.pk)
    return render(request, "training/suites/form.html", {"form": form}, status=status)


def _get_suite(request: PageRequest, pk: uuid.UUID) -> EvaluationSuite:
    found = EvaluationSuite.objects.for_workspace(request.workspace).select_related("agent", "dataset__artifact")
    suite = found.filter(pk=pk).first()
    if suite is None:
        raise Http404("Suite not found.")
    return suite


@require_safe
@workspace_page()
def suite_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Every scored version, newest first, and those that could be scored."""
    suite = _get_suite(request, pk)
    scores = list(select_scores(suite.scores.all()).order_by("-version__number")[:MOST])
    versions = ModelVersion.objects.filter(registered_model=suite.agent.registered_model_id)
    policies = versions.filter(artifact__isnull=False).exclude(artifact__kind__in=NO_POLICIES)
    under_way = Job.objects.for_workspace(request.workspace).filter(
        kind=SCORE, payload__suite=str(suite.id), state__in=(JobState.QUEUED, JobState.RUNNING)
    )
    context = {
        "suite": suite,
        "lines": [_line(score) for score in scores],
        "chart": draw_versions(scores),
        "unscored": policies.exclude(suite_scores__suite=suite).select_related("registered_model")[:MOST],
        "under_way": under_way.count(),
    }
    return render(request, "training/suites/detail.html", context)


def _line(score: SuiteScore) -> dict[str, Any]:
    (accuracy, *others) = list_measures(score, None, score.differences)
    reward = next((one for one in others if one.name == "reward"), None)
    return {"score": score, "accuracy": accuracy, "reward": reward}


@require_POST
@workspace_page(role=Role.ADMIN)
def suite_score_ask(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Queues the score of one version."""
    suite = _get_suite(request, pk)
    if not (asked := request.POST.get("version", "")):
        raise InvalidInput("Choose a version.", faults=[FieldFault("version", "is missing", "a version")])
    version = find_version(request.workspace, asked, field="version")
    start_scoring(by=request.actor, suite=suite, version=version)
    messages.success(request, f"{version} will be scored by a worker.")
    return redirect("pages:suite", request.workspace.slug, suite.pk)


@require_safe
@workspace_page()
def suite_score(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """One evaluation; with `against`, another version's score on the same suite, in pairs."""
    found = select_scores(SuiteScore.objects.for_workspace(request.workspace))
    score = found.select_related("suite__dataset__artifact", "run__agent").filter(pk=pk).first()
    if score is None:
        raise Http404("Evaluation not found.")
    others = list(
        select_scores(SuiteScore.objects.filter(suite=score.suite).exclude(pk=pk)).order_by("-version__number")
    )
    asked = request.GET.get("against", "")
    other = None
    if asked:
        against = find_version(request.workspace, asked, field="against")
        other = next((one for one in others if one.version_id == against.id), None)
        if other is None:
            raise Http404("The other version is not scored on this suite.")
    else:
        other = next((one for one in others if one.version_id == score.against_id), None)
    errors = list_errors(score)
    differences = compare_scores(score, other) if other is not None else {}
    context = {
        "score": score,
        "other": other,
        "others": others,
        "measures": list_measures(score, other, differences),
        "labels": list_parts(score, "labels", differences),
        "slices": list_parts(score, "slices", differences),
        "fields": list_parts(score, "fields", differences),
        "calibration": draw_calibration([score, *([other] if other is not None else [])]),
        "errors": errors[:ERRORS_SHOWN],
        "more_errors": errors[ERRORS_SHOWN:],
    }
    return render(request, "training/suites/score.html", context)
