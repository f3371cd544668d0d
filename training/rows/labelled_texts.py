"""A labelled text, the input of a loop's decision. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """`id` is unique among the texts of a loop. Examples of one `group` are measured as one cluster."""

    id: str
    text: str
    label: str
    group: str = ""


def labelled_row(example: Example, labels: Sequence[str]) -> Mapping[str, object]:
    """The example as a row of a labelled dataset."""
    row = {"id": example.id, "prompt": example.text, "options": list(labels), "answer": example.label}
    return {**row, "group": example.group} if example.group else row
