"""The form that starts a pipeline: what `manage.py pipeline` takes, but for filters, rows and Ollama."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from django import forms

from decisions.models import Agent
from training.engine.spec.methods import TRAINING
from training.loops.pipeline.plan import CHAMPION, EXPERIMENT, FIELD_OF, HELD_OUT_SHARE, PipelinePlan
from training.models import LEDGER_KINDS
from training.rows.selection import ALL, Filters
from workspaces.errors import FieldFault
from workspaces.http.json_field import JsonObjectField
from workspaces.models import Workspace

PLANNED = {field.name for of in (PipelinePlan, Filters) for field in fields(of)}
"""Of these the form asks for some; a fault of another name is one of the run's settings."""
METHODS = [
    (name, f"{name}: {method.does}")
    for name, method in TRAINING.items()
    if not method.makes_reward_model and set(LEDGER_KINDS) & set(method.learns_from)
]


class PipelineForm(forms.Form):
    agent = forms.ModelChoiceField(Agent.objects.none(), to_field_name="slug", empty_label="Choose an agent")
    method = forms.ChoiceField(choices=METHODS, initial="posterior")
    model = forms.CharField(
        label="Base model",
        required=False,
        max_length=500,
        help_text="What to train: a version such as filer:3, or a hub id or folder that the operator allows. Leave "
        "empty for the champion.",
    )
    only_new = forms.BooleanField(label="Only decisions that no run has used", required=False)
    with_propensity = forms.BooleanField(label="Only decisions with a propensity", required=False)
    incomplete = forms.BooleanField(label="Also incomplete answers", required=False)
    held_out = forms.FloatField(
        label="Held-out share",
        initial=HELD_OUT_SHARE,
        min_value=0,
        max_value=0.5,
        help_text="From 0 to 0.5. The run does not learn from these rows and is measured on them.",
    )
    deploy = forms.ChoiceField(
        label="At the end, if the evidence allows it",
        required=False,
        choices=[("", "Only create the version"), (EXPERIMENT, "Start an experiment"), (CHAMPION, "Promote it")],
    )
    settings = JsonObjectField(
        label="Further settings",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
        help_text="JSON with fields of the training spec. Leave empty for the defaults.",
    )

    def __init__(self, workspace: Workspace, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        agents = self.fields["agent"]
        assert isinstance(agents, forms.ModelChoiceField)
        agents.queryset = Agent.objects.for_workspace(workspace).order_by("name")
        if len(found := agents.queryset[:2]) == 1:
            self.initial.setdefault("agent", found[0].slug)

    @property
    def choices(self) -> list[forms.BoundField]:
        """The fields that are boxes to tick."""
        return [self["only_new"], self["with_propensity"], self["incomplete"]]

    def read_plan(self) -> PipelinePlan:
        """Of a valid form."""
        given = {name: value for name, value in self.cleaned_data.items() if name != "agent"}
        filters = replace(ALL, **{name: given.pop(name) for name in ("with_propensity", "incomplete")})
        return PipelinePlan(**given | {"settings": given["settings"] or {}, "filters": filters})

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field, and those of the run's spec beside the settings."""
        for fault in faults:
            name = FIELD_OF.get(fault.field, fault.field)
            if name in self.fields:
                self.add_error(name, fault.says)
            elif not name or name in PLANNED:
                self.add_error(None, f"{name}: {fault.says}" if name else fault.says)
            else:
                self.add_error("settings", f"{name.removeprefix('settings.')}: {fault.says}")
