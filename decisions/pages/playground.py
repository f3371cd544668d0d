"""The playground: another version is asked about a decision, edited or not, or about an episode, side by side."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from decisions.editors.table import editor_of
from decisions.gateway.playground import Comparison, Edits, Rerun, as_edited_options, ask_again, ask_episode, list_steps
from decisions.models import ActionSpaceKind, Agent, Decision
from decisions.pages.cards import get_decision
from decisions.pages.episodes import get_episode
from decisions.queries.decision_shown import show_decision
from models_registry.models import NO_POLICIES, ModelVersion, VersionState
from workspaces.errors import InvalidInput, ReckonerError
from workspaces.http.json_field import JsonObjectField
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, may, workspace_page

MOST_VERSIONS = 100


class VersionForm(forms.Form):
    """The version that is asked: of the agent's model, the newest first."""

    version = forms.ModelChoiceField(ModelVersion.objects.none(), empty_label="Choose a version")

    def __init__(self, agent: Agent, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        field = self.fields["version"]
        assert isinstance(field, forms.ModelChoiceField)
        found = ModelVersion.objects.filter(registered_model=agent.registered_model_id, state=VersionState.READY)
        policies = found.filter(Q(artifact=None) | ~Q(artifact__kind__in=NO_POLICIES))
        field.queryset = policies.select_related("registered_model", "artifact", "base__artifact").order_by("-number")
        for one in self.fields.values():
            one.widget.attrs.setdefault("autocomplete", "off")


class PlaygroundForm(VersionForm):
    """What is asked: the recorded state and options, or what was made of them."""

    state = JsonObjectField(label="State", widget=forms.Textarea(attrs={"rows": 8, "class": "state-json"}))
    options = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="One on each line.",
    )

    def __init__(self, decision: Decision, *given: Any, **more: Any) -> None:
        super().__init__(decision.agent, *given, **more)
        self.decision = decision
        self.recorded = decision.options or decision.agent_version.options
        if decision.agent_version.action_space != ActionSpaceKind.CHOICE or not _fits_lines(self.recorded):
            del self.fields["options"]  # those of a structured action follow from its schema and the state
        self.initial.setdefault("state", json.dumps(decision.state, ensure_ascii=False, indent=2))
        self.initial.setdefault("options", "\n".join(self.recorded or []))

    def read_edits(self) -> Edits:
        """What differs from what is recorded."""
        state, lines = self.cleaned_data.get("state"), self.cleaned_data.get("options", "")
        options = as_edited_options(lines.splitlines())
        return Edits(
            state if state is not None and state != self.decision.state else None,
            options if options and list(options) != list(self.recorded or []) else None,
        )


def _fits_lines(options: Any) -> bool:
    """Whether each option stands on a line as it is."""
    return all(isinstance(one, str) and one == one.strip() and len(one.splitlines()) == 1 for one in options or [])


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page()
def decision_playground(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET shows the form; POST asks and shows both sides. Nothing is recorded."""
    decision = get_decision(request, pk)
    form = PlaygroundForm(decision, request.POST or None)
    compared, status = None, 200
    if request.method == "POST":
        _require_labeller(request)
        status = 400
        if form.is_valid():
            try:
                version = form.cleaned_data["version"]
                edits = form.read_edits()
                compared, status = ask_again(by=request.actor, decision=decision, version=version, edits=edits), 200
            except InvalidInput as error:
                for fault in error.faults:
                    name = fault.field.partition(".")[0].partition("[")[0]
                    form.add_error(name if name in form.fields else None, f"{fault.reason}; expected: {fault.expected}")
            except ReckonerError as error:
                form.add_error(None, error.message)
                status = error.status
    shown = show_decision(decision)
    context = {"form": form, "shown": shown, "compared": compared, "rows": _rows(compared) if compared else []}
    return render(request, "decisions/playground.html", context, status=status)


def _rows(compared: Comparison) -> list[dict[str, Any]]:
    """The likeliest now first, and what was done among them."""
    editor = editor_of(compared.decision)
    offers = sorted(compared.offers, key=lambda offer: (-offer.thought, not offer.taken))
    return [{"offer": offer, "line": editor.say(offer.action)} for offer in offers]


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page()
def episode_playground(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """GET shows the form; POST asks about one decision after another, and shows where it stopped."""
    episode = get_episode(request, pk)
    decisions = list_steps(episode)

    class StepForm(VersionForm):
        step = forms.IntegerField(min_value=1, max_value=max(1, len(decisions)), initial=1, label="Begin with decision")

    form = StepForm(episode.agent, request.POST or None)
    rerun, status = None, 200
    if request.method == "POST":
        _require_labeller(request)
        status = 400
        if form.is_valid():
            given = form.cleaned_data
            version, start = given["version"], given["step"]
            rerun, status = ask_episode(by=request.actor, episode=episode, version=version, start=start), 200
    context = {
        "form": form,
        "episode": episode,
        "count": len(decisions),
        "rerun": rerun,
        "lines": _lines(rerun) if rerun is not None else [],
    }
    return render(request, "episodes/playground.html", context, status=status)


def _lines(rerun: Rerun) -> list[dict[str, Any]]:
    lines = []
    for step in rerun.steps:
        editor, compared = editor_of(step.decision), step.comparison
        pick = next((offer for offer in compared.offers if offer.picked), None) if compared is not None else None
        lines.append(
            {
                "step": step,
                "compared": compared,
                "taken": editor.say(step.decision.action) if not step.decision.is_erased else "erased",
                "pick": editor.say(compared.pick) if compared is not None else "",
                "thought": pick.thought if pick is not None else None,
            }
        )
    return lines


def _require_labeller(request: PageRequest) -> None:
    """Asking costs a server's time, and money at some. Raises PermissionDenied."""
    if not may(request.role, Role.LABELLER):
        raise PermissionDenied("Asking a version needs the role labeller.")
