"""The two forms that upload a file: rows for a dataset, or decisions for the ledger.

A valid form has read and checked the whole file; every fault is shown beside its field.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django import forms
from django.urls import reverse
from django.utils.html import format_html

from decisions.importers.opening import GZ
from decisions.importers.records import LONGEST_NAME
from decisions.models import Agent
from training.errors import UnusableImport
from training.imports import uploads
from training.imports.checking import check_file
from training.imports.plan import DECISIONS, FORMAT_CHOICES, LABELLED, LABELLED_ENDINGS, ImportPlan
from training.imports.services import keep_for_import
from workspaces.access.actors import Actor

SIZE = f"May be packed as .gz. Up to {uploads.LARGEST_UPLOAD >> 20} MiB."


class ImportForm(forms.Form):
    """Base of both. After `is_valid`, `upload` names the kept file; of a form that is not valid nothing is kept."""

    file = forms.FileField(widget=forms.FileInput())
    agent = forms.ChoiceField()
    what = ""
    upload: uuid.UUID

    def __init__(self, *given: Any, by: Actor, **options: Any) -> None:
        super().__init__(*given, **options)
        self.by = by
        agents = Agent.objects.for_workspace(by.workspace).order_by("name").values_list("slug", "name")
        field = self.fields["agent"]
        assert isinstance(field, forms.ChoiceField)
        self.has_agents = agents.exists()
        field.choices = [*self.first_agents, *((slug, f"{name} ({slug})") for slug, name in agents)]

    first_agents: tuple[tuple[str, str], ...] = ()

    def read_plan(self, given: Mapping[str, Any]) -> ImportPlan:
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        if fault := uploads.size_fault(given["file"]):
            self.add_error("file", fault)
            return given
        plan = self.read_plan(given)
        with tempfile.TemporaryDirectory(prefix="reckoner-upload-") as folder:
            path = uploads.write_upload(given["file"], Path(folder))
            try:
                check_file(by=self.by, plan=plan, path=path)
            except UnusableImport as error:
                for fault_found in error.faults:
                    self.add_error(fault_found.field if fault_found.field in self.fields else None, fault_found.reason)
            else:
                self.upload = keep_for_import(by=self.by, plan=plan, path=path)
        return given


class LabelledForm(ImportForm):
    what = LABELLED
    name = forms.CharField(max_length=200, label="Name of the dataset", help_text="For example: labels of November")
    leave_out_faulty = forms.BooleanField(
        required=False, label="Leave out faulty lines", help_text="Otherwise a file with a fault is not imported."
    )

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.order_fields(["file", "agent", "name", "leave_out_faulty"])
        self.fields["file"].widget.attrs["accept"] = ",".join((*LABELLED_ENDINGS, GZ))
        told = (
            "JSON lines with prompt, options and answer, an export of decisions, or rows as TRL, ShareGPT, Alpaca and "
            "HH-RLHF write them."
        )
        self.fields["file"].help_text = f"{told} {SIZE}"
        self.fields["agent"].help_text = "The dataset is for training and evaluating the model of this agent."
        if not self.has_agents:
            self.fields["agent"].help_text = format_html(
                'There is no agent yet. <a href="{}">Create one</a> first.',
                reverse("pages:agent-new", args=[self.by.workspace.slug]),
            )

    def read_plan(self, given: Mapping[str, Any]) -> ImportPlan:
        return ImportPlan(
            what=LABELLED,
            agent=given["agent"],
            name=given["name"],
            leave_out_faulty=given["leave_out_faulty"],
        )


class DecisionsForm(ImportForm):
    what = DECISIONS
    format = forms.ChoiceField(choices=FORMAT_CHOICES)
    create_agents = forms.BooleanField(
        required=False, label="Create missing agents", help_text="Their prompts use the fields of the states."
    )
    observed_at = forms.DateTimeField(
        required=False, label="Time for records without a time", help_text="In UTC, such as 2026-11-02 10:00."
    )
    policy = forms.CharField(
        required=False,
        max_length=LONGEST_NAME,
        label="Policy name",
        help_text="For records without a policy name. Default: the name of the format.",
    )
    first_agents = (("", "As named in each record"),)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.order_fields(["file", "format", "agent", "create_agents", "observed_at", "policy"])
        self.fields["file"].help_text = f"A file of the format, or a zip of a folder with such files. {SIZE}"
        self.fields["agent"].required = False

    def read_plan(self, given: Mapping[str, Any]) -> ImportPlan:
        return ImportPlan(
            what=DECISIONS,
            agent=given["agent"],
            format=given["format"],
            create_agents=given["create_agents"],
            observed_at=given["observed_at"],
            policy=given["policy"],
        )


FORMS: Mapping[str, type[ImportForm]] = {LABELLED: LabelledForm, DECISIONS: DecisionsForm}
