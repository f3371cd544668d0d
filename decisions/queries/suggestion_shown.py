"""What the auto-labeler suggests of a decision or an episode, as pages show it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min, TextField
from django.db.models.functions import Cast

from decisions.agents.prompts import as_text
from decisions.models import Decision, LabelSuggestion, Verdict


@dataclass(frozen=True, slots=True)
class ShownSuggestion:
    """`accept` is what the button's form sends, empty where only fields are suggested: a person has to judge the
    rest."""

    suggestion: LabelSuggestion

    @property
    def says(self) -> str:
        """The right action, fields of it with the confidence of each, or the verdict, in one line."""
        one = self.suggestion
        if one.action is not None and one.verdict != Verdict.CONFIRMED:
            return _write_action(one.action)
        if one.verdict:
            return "right" if one.verdict == Verdict.CONFIRMED else "wrong"
        return ", ".join(
            f"{field['field']} {as_text(field['value'])} {field['confidence']:.1%}" for field in one.fields
        )

    @property
    def confidence(self) -> float:
        return self.suggestion.confidence

    @property
    def accept(self) -> str:
        return str(self.suggestion.id) if self.suggestion.verdict else ""


def _write_action(action: Any) -> str:
    """The fields of an object that hold something, in one line."""
    if not isinstance(action, dict):
        return as_text(action)
    return ", ".join(f"{name} {as_text(value)}" for name, value in action.items() if value not in (None, [], {}, ""))


def find_only_decisions(episodes: Iterable[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    """By the id of each episode that has a single decision."""
    found = Decision.objects.filter(episode__in=list(episodes)).order_by().values("episode")
    return {
        row["episode"]: uuid.UUID(row["only"])
        for row in found.annotate(many=Count("id"), only=Min(Cast("id", TextField()))).filter(many=1)
    }


def find_suggestions(name: str, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ShownSuggestion]:
    """By the id of the `decision` or the `episode` that they are of."""
    found = LabelSuggestion.objects.filter(**{f"{name}__in": list(ids)})
    return {getattr(one, f"{name}_id"): ShownSuggestion(one) for one in found}
