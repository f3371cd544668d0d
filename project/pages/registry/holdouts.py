"""Pages of holdouts: the list, one with its weeks, the form that starts one, and its end."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from models_registry.experiments.holdouts import end_holdout, read_figures, start_holdout
from models_registry.experiments.ledger import Sums
from models_registry.experiments.log import LONGEST_REASON
from models_registry.models import Holdout
from models_registry.models.holdout_bounds import HOLDOUT_SECONDS
from models_registry.statistics.holdouts import compare_arms
from models_registry.statistics.intervals import DISPLAY_MIN_UNITS_PER_ARM
from project.pages.registry.forms import DurationField, write_duration
from project.pages.registry.verdicts import Headline
from project.pages.registry.versions import get_version
from workspaces.errors import Conflict, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed, read_reason
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.templatetags.show import signed

MARGIN = 1.15
"""The axis ends this much beyond the furthest end that stands on it."""
MOST = 50


class HoldoutForm(forms.Form):
    """How many are held, for how long, and why."""

    share = forms.FloatField(
        label="Share of units",
        initial="0.05",
        help_text="Above 0, up to 0.5. These units keep the version and are in no experiment.",
    )
    seconds = DurationField(
        label="For",
        initial=write_duration(HOLDOUT_SECONDS),
        help_text="Up to 366 d. Then they get the champion, like everybody else.",
    )
    reason = forms.CharField(max_length=LONGEST_REASON, help_text="Why, in a sentence.")


def _holdouts(request: PageRequest) -> QuerySet[Holdout]:
    found: QuerySet[Holdout] = Holdout.objects.for_workspace(request.workspace).select_related(
        "registered_model", "version__registered_model"
    )
    return found


def _get_holdout(request: PageRequest, pk: uuid.UUID) -> Holdout:
    holdout = _holdouts(request).filter(pk=pk).first()
    if holdout is None:
        raise Http404("Holdout not found.")
    return holdout


def _line(sums: Sums) -> dict[str, Any]:
    interval = compare_arms(sums.served, sums.held)
    tone = "" if interval is None else "ok" if interval.low > 0 else "bad" if interval.high < 0 else ""
    return {"sums": sums, "interval": interval, "tone": tone, "week": None if sums.week is None else sums.week + 1}


def _headline(holdout: Holdout, whole: dict[str, Any]) -> Headline:
    interval, version = whole["interval"], holdout.version
    over = holdout.ended_at is not None
    if interval is None:
        fewest = min(whole["sums"].served.units, whole["sums"].held.units)
        says = "Too few units were rewarded for a result." if over else "It is too early to tell: leave it running."
        because = f"Each side needs {DISPLAY_MIN_UNITS_PER_ARM} units with a reward; the smaller one has {fewest:,}."
        return Headline(says, because, "", "hourglass")
    because = f"Served minus held: {signed(interval.mean)} [{signed(interval.low)}, {signed(interval.high)}] per unit."
    if interval.low > 0:
        return Headline(f"What everybody else gets is better than {version}.", because, "ok", "trending-up")
    if interval.high < 0:
        says = f"What everybody else gets is worse than {version}: look at what was promoted since."
        return Headline(says, because, "bad", "trending-down")
    return Headline(f"No difference from {version} is shown.", because, "info", "scale")


@require_safe
@workspace_page()
def holdout_list(request: PageRequest) -> HttpResponse:
    """Newest first."""
    lines = [
        {"holdout": one, "headline": _headline(one, whole), **whole}
        for one in _holdouts(request).order_by("-id")[:MOST]
        for whole in [_line(read_figures(one)[0])]
    ]
    return render(request, "registry/holdouts.html", {"lines": lines, "most": MOST, **_axis(lines)})


@require_safe
@workspace_page()
def holdout_detail(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    holdout = _get_holdout(request, pk)
    whole, weeks = read_figures(holdout)
    lines = [_line(one) for one in (whole, *weeks)]
    context = {"holdout": holdout, "headline": _headline(holdout, lines[0]), "lines": lines, **_axis(lines)}
    return render(request, "registry/holdout.html", context)


def _axis(lines: list[dict[str, Any]]) -> dict[str, float]:
    ends = [abs(end) for one in lines if one["interval"] for end in (one["interval"].low, one["interval"].high)]
    reach = max(ends, default=1.0) * MARGIN or 1.0
    return {"left": -reach, "reach": reach}


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def version_hold_out(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET asks how many and for how long, POST starts the holdout of this version."""
    version = get_version(request, pk)
    form, status = HoldoutForm(request.POST if request.method == "POST" else None), 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                holdout = start_holdout(by=request.actor, version=version, **form.cleaned_data)
            except InvalidInput as error:
                for fault in error.faults:
                    form.add_error(fault.field, fault.says)
            except Conflict as error:
                form.add_error(None, error.message)
                status = error.status
            else:
                messages.success(request, "The holdout has started.")
                return redirect("pages:holdout", request.workspace.slug, holdout.pk)
    return render(request, "registry/holdout_form.html", {"form": form, "version": version}, status=status)


@confirmed(back="pages:holdout")
def holdout_end(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    """GET asks, POST gives everybody the champion."""
    holdout = _get_holdout(request, pk)
    return Confirmation(
        title=f"End the holdout of {holdout.version}?",
        explanation="Its units get the champion from now on. It cannot be resumed.",
        button="End the holdout",
        do=lambda: end_holdout(by=request.actor, holdout=holdout, reason=read_reason(request)),
        done="The holdout has ended. The champion serves its units.",
        asks_reason=True,
    )
