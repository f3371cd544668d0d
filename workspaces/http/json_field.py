"""A form's field that takes a JSON object."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from workspaces.errors import InvalidInput
from workspaces.http.parsing import check_body


class JsonObjectField(forms.CharField):
    """A JSON object, or nothing; cleaned to a dict or None. `example` is what the error shows, and the
    empty field where it is given."""

    def __init__(self, *, example: str = "", **options: Any) -> None:
        self.example = example or "{…}"
        super().__init__(required=False, **options)
        if example:
            self.widget.attrs["placeholder"] = example

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            check_body(text.encode())
            found = json.loads(text)
        except InvalidInput as error:
            raise forms.ValidationError(error.message.replace("The body", "It")) from error
        except ValueError as error:
            raise forms.ValidationError(f"Enter valid JSON: {error}.") from error
        if not isinstance(found, dict):
            raise forms.ValidationError(f"Enter a JSON object, such as {self.example}, or leave it empty.")
        return found
