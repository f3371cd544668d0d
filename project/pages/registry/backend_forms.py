"""The forms of backends, deployments and remote versions. What they take, the same services check as the API's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings

from models_registry.backends.services import BackendSetup
from models_registry.models import Backend, BackendKind, Capability, RegisteredModel
from models_registry.versions.references import FORMS
from workspaces.errors import FieldFault
from workspaces.models import Workspace

_setup = BackendSetup(name="", url="")
FIXED = ("name", "kind")


class FaultsForm(forms.Form):
    """A form that shows a service's faults beside their fields."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        for field in self.fields.values():
            field.widget.attrs.setdefault("autocomplete", "off")

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        for fault in faults:
            says = f"{fault.reason[:1].upper()}{fault.reason[1:]}; expected: {fault.expected}."
            self.add_error(fault.field if fault.field in self.fields else None, says)


class BackendForm(FaultsForm):
    """A backend; of one that is there, all but its name and kind."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and hyphens.")
    kind = forms.ChoiceField(choices=BackendKind.choices, initial=BackendKind.OPENAI)
    url = forms.CharField(label="Address", max_length=500)
    key_variable = forms.CharField(
        label="Variable of the key",
        max_length=100,
        required=False,
        help_text="The environment variable that holds its key, such as OPENAI_API_KEY. The key is never stored.",
    )
    capabilities = forms.MultipleChoiceField(
        choices=Capability.choices,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="What it can do beyond answering a chat. Of llama.cpp’s server with an exported GGUF: the last one.",
    )
    timeout_seconds = forms.FloatField(
        label="Time for an answer, seconds",
        initial=f"{_setup.timeout_seconds:g}",
        help_text="For a stream, the longest wait between two parts.",
    )
    connect_seconds = forms.FloatField(label="Time to connect, seconds", initial=f"{_setup.connect_seconds:g}")
    retries = forms.IntegerField(initial=_setup.retries, help_text="Further tries after a failure, 0 to 5.")
    price_in = forms.DecimalField(
        label="Price of prompts", initial="0", max_digits=12, decimal_places=6, help_text="Per million tokens."
    )
    price_out = forms.DecimalField(
        label="Price of answers", initial="0", max_digits=12, decimal_places=6, help_text="Per million tokens."
    )
    artifacts_path = forms.CharField(
        label="Artifact store on the server",
        max_length=500,
        required=False,
        help_text="Path of the artifact store there, to load adapters from. Leave empty if it is the same as here.",
    )

    def __init__(self, *given: Any, backend: Backend | None = None, **more: Any) -> None:
        if backend is not None:
            more["initial"] = {name: _plain(getattr(backend, name)) for name in self.base_fields}
        super().__init__(*given, **more)
        allowed = ", ".join(settings.BACKEND_URLS) or "none"
        self.fields["url"].help_text = f"Up to and including /v1, if the server has it. Allowed here: {allowed}."
        if backend is not None:
            for name in FIXED:
                del self.fields[name]

    @property
    def changes(self) -> Mapping[str, Any]:
        """Of a valid form: fields of BackendSetup."""
        return {**self.cleaned_data, "capabilities": tuple(self.cleaned_data["capabilities"])}


def _plain(value: Any) -> Any:
    """Numbers as people write them: 20.0 → 20, 0.150000 → 0.15."""
    return (
        f"{value.normalize():f}" if isinstance(value, Decimal) else f"{value:g}" if isinstance(value, float) else value
    )


class DeployForm(FaultsForm):
    """A version that is to be served by a backend."""

    version = forms.CharField(max_length=200, help_text=f"{FORMS}.")
    remote_name = forms.CharField(
        label="Name there",
        max_length=200,
        required=False,
        help_text="Its name on the backend. Leave empty for the version's own name.",
    )
    priority = forms.IntegerField(initial=0, help_text="0 to 1,000. The lowest is asked first.")


class RemoteVersionForm(FaultsForm):
    """A new version of a model: one that others keep, under the name that the backend knows."""

    model = forms.ModelChoiceField(
        RegisteredModel.objects.none(),
        empty_label=None,
        to_field_name="name",
        help_text="The new version gets its next number. The first version of a model serves at once.",
    )
    remote_name = forms.CharField(label="Name there", max_length=200, help_text="Such as gpt-4o-mini.")
    description = forms.CharField(max_length=500, required=False)

    def __init__(self, *given: Any, workspace: Workspace, **more: Any) -> None:
        super().__init__(*given, **more)
        field = self.fields["model"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = RegisteredModel.objects.for_workspace(workspace).order_by("name")
