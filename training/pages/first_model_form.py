"""The form that starts an agent's first model: which base, and how much of it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from decisions.queries.first_labels import FirstLabels
from training.runs.base_models import TINY
from training.runs.defaults.named import choose_named_base, list_named_bases
from training.runs.estimates.capacity import is_downloaded
from workspaces.errors import FieldFault

WEIGHTS: Mapping[str, bool | None] = {"": None, "lora": True, "whole": False}


class FirstModelForm(forms.Form):
    """Of one agent; `training.loops.first_model.services.start_training` takes what it reads."""

    base_model = forms.ChoiceField(label="Base model", required=False)
    weights = forms.ChoiceField(
        label="Trained weights",
        required=False,
        choices=[("", "What suits the base"), ("lora", "An adapter (LoRA)"), ("whole", "All weights")],
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, first: FirstLabels, root: str) -> None:
        super().__init__(data, auto_id=f"id_{first.agent.slug}_%s")
        self.first = first
        base, weights = self.fields["base_model"], self.fields["weights"]
        assert isinstance(base, forms.ChoiceField)
        named = [(name, _title(name)) for name in list_named_bases()]
        base.choices = named if first.writes else [("", "The best of all kinds"), (TINY, "New tiny model"), *named]
        base.initial = (choose_named_base() if root == TINY else root) if first.writes else ""
        base.help_text = (
            "A pretrained model that learns to write these texts."
            if first.writes
            else "All kinds: a classifier of words, one on a sentence encoder where there is one, and the default "
            "model. A tiny model learns in minutes on a CPU. A pretrained one knows language already."
        )
        weights.help_text = "An adapter needs much less memory, and lies over its base. A tiny model is trained whole."

    @property
    def has_bases(self) -> bool:
        base = self.fields["base_model"]
        assert isinstance(base, forms.ChoiceField)
        return bool(base.choices)

    def read(self) -> tuple[str, bool | None]:
        """Base, "" for the default one, and whether an adapter is trained, of a form that is valid."""
        return self.cleaned_data["base_model"], WEIGHTS[self.cleaned_data["weights"]]

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field, or beside the base."""
        for fault in faults:
            self.add_error("weights" if fault.field.startswith(("lora", "settings.lora")) else "base_model", fault.says)


def _title(name: str) -> str:
    return name if is_downloaded(name) else f"{name} (downloaded first)"
