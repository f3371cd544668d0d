"""Says in words how good an auto-labeler is: for its page and its command."""

from __future__ import annotations

from typing import Any

from decisions.models import AutoLabeler, Suggested

WHAT = {
    Suggested.OPTION: "the right option",
    Suggested.FIRST: "the item that belongs first",
    Suggested.FIELDS: "fields of the action",
    Suggested.VERDICT: "the verdict",
}


def tell_auto_labeler(labeler: AutoLabeler) -> list[str]:
    """One line for each thing that it says; of one that never learnt, what it would suggest, or why nothing."""
    if labeler.trained_at is None:
        return [labeler.reason or f"It suggests {WHAT[Suggested(labeler.suggests)]}.", *_about(labeler)]
    says = [
        f"It suggests {WHAT[Suggested(labeler.suggests)]}, and learnt from {_count(labeler.labels, 'label')}: "
        f"{labeler.suggested:,} suggestions for {labeler.looked_at:,} without a verdict."
    ]
    if labeler.accuracy is not None and labeler.baseline is not None:
        says.append(
            f"On labels that it had not seen, its likeliest answer is right in {labeler.accuracy:.1%}; "
            f"a guess without reading is right in {labeler.baseline:.1%}."
        )
    if labeler.precision is not None and labeler.threshold is not None:
        says.append(tell_threshold(labeler.threshold, labeler.precision, labeler.coverage))
    return [*says, *map(_tell_field, labeler.fields), *([labeler.reason] if labeler.reason else []), *_about(labeler)]


def tell_threshold(threshold: float, precision: float, coverage: float) -> str:
    return (
        f"From a confidence of {threshold:.1%} on it suggests: {precision:.1%} of that was right, "
        f"for {coverage:.1%} of the labels."
    )


def _tell_field(field: dict[str, Any]) -> str:
    if field["accuracy"] is None:
        return f"{field['field']}: {field['reason']}"
    says = f"{field['field']}: right in {field['accuracy']:.1%}, a guess without reading in {field['baseline']:.1%}."
    if field["precision"] is None:
        return f"{says} It is not sure enough to suggest it."
    return f"{says} {tell_threshold(field['threshold'], field['precision'], field['coverage'])}"


def _about(labeler: AutoLabeler) -> list[str]:
    return [labeler.about] if labeler.about else []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
