"""The form that starts a rehearsal from a file. It shows every fault of file and plan beside its field.

It reads and checks as `manage.py rehearse` does, and writes nothing while there is a fault.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from training.imports import uploads
from training.loops.rehearsal.plan import MOST_DECISIONS, Plan, PlanError, check_plan, range_faults
from training.loops.rehearsal.services import find_base_faults
from training.loops.rehearsal.source import Source, SourceError, read_source
from training.runs.base_models import TINY, hub_ids, list_folders

_plan = Plan()


class RehearsalForm(forms.Form):
    """Once valid, `source` and `plan` are what `start_rehearsal` takes."""

    file = forms.FileField(
        help_text="CSV with a header line, JSON lines or a JSON list, "
        f"in UTF-8, up to {uploads.LARGEST_UPLOAD >> 20} MiB.",
        widget=forms.FileInput(attrs={"accept": ".csv,.jsonl,.ndjson,.json"}),
    )
    text_field = forms.CharField(max_length=200, help_text="Name of the column with the text.")
    label_field = forms.CharField(
        max_length=200, help_text="Name of the column with the right label. It needs 2 to 200 different labels."
    )
    base = forms.ChoiceField(required=False, label="Base model", help_text="What the first model starts from.")
    lora = forms.BooleanField(
        required=False, label="Train an adapter", help_text="Train LoRA on a pretrained base instead of its weights."
    )
    seed_share = forms.FloatField(
        required=False, help_text=f"Share of the labels that train the base model. Default: {_plan.seed_share:g}."
    )
    decisions = forms.IntegerField(
        required=False, help_text=f"By default, as many as there are, up to {MOST_DECISIONS:,}."
    )
    rounds = forms.IntegerField(required=False, help_text=f"How often a new model is trained. Default: {_plan.rounds}.")
    seeds = forms.IntegerField(
        required=False, help_text=f"How often everything is repeated with other rows. Default: {_plan.seeds}."
    )
    noise = forms.FloatField(required=False, help_text="Share of feedback that is wrong. Default: 0.")
    late = forms.FloatField(required=False, help_text="Share of feedback that arrives one round late. Default: 0.")
    missing = forms.FloatField(required=False, help_text="Share of decisions without feedback. Default: 0.")

    source: Source
    plan: Plan

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        base = self.fields["base"]
        assert isinstance(base, forms.ChoiceField)
        own = "New tiny model" if settings.BASE_MODEL == TINY else settings.BASE_MODEL
        others = [name for name in (TINY, *hub_ids(), *list_folders()) if name != settings.BASE_MODEL]
        base.choices = [("", own), *((name, "New tiny model" if name == TINY else name) for name in others)]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        names = ("seed_share", "decisions", "rounds", "seeds", "noise", "late", "missing")
        told = {name: given[name] for name in names if given.get(name) is not None}
        self.plan = Plan(**told, base=given.get("base", ""), lora=given.get("lora", False))
        source = None
        if {"file", "text_field", "label_field"} <= given.keys():
            source = self._read(given["file"], given["text_field"], given["label_field"])
        # The plan is checked without a file too, so that its faults and the file's are shown together.
        faults: Sequence[str] = (*range_faults(self.plan), *find_base_faults(self.plan))
        if source is not None and not faults:
            self.source = source
            try:
                check_plan(self.plan, source)
            except PlanError as error:
                faults = error.faults
        for fault in faults:
            setting, _, says = fault.partition(": ")
            self.add_error(setting.replace("-", "_"), says)
        return given

    def _read(self, upload: UploadedFile[Any], text_field: str, label_field: str) -> Source | None:
        if fault := uploads.size_fault(upload):
            self.add_error("file", fault)
            return None
        with tempfile.TemporaryDirectory(prefix="reckoner-upload-") as folder:
            path = uploads.write_upload(upload, Path(folder))
            try:
                return read_source(path, text_field=text_field, label_field=label_field)
            except SourceError as error:
                for fault in error.faults:
                    self.add_error(_place(fault, label_field), fault)
        return None


def _place(fault: str, label_field: str) -> str:
    """The field that a fault of the file is about: one of the two names, else the file."""
    if "has the text field" in fault:
        return "text_field"
    about_labels = ("has the label field", "they must differ", "one example only", f"{label_field!r} holds")
    return "label_field" if any(words in fault for words in about_labels) else "file"
