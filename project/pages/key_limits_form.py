"""The form of an API key's limits: on its own page, and beside the form that makes a key."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django import forms

from decisions.models import Agent
from project.pages.registry.backend_forms import FaultsForm
from workspaces.access.services import LIMITS, MOST_REQUESTS, MOST_SPEND, KeyLimits
from workspaces.models import ApiKey


class KeyLimitsForm(FaultsForm):
    """Empty fields are no limit of the key's own. Slugs that name no agent yet stay with the key that has them."""

    requests_a_minute = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_REQUESTS,
        label="Requests per minute",
        help_text="Leave empty for the instance's limit, which no key exceeds.",
    )
    spend_a_day = forms.DecimalField(
        required=False,
        min_value=Decimal("0.000001"),
        max_value=MOST_SPEND,
        decimal_places=6,
        label="Spend per day",
        help_text="What its calls may cost from 00:00 UTC on, in the unit of the backends' prices. Leave empty for no "
        "budget.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    agents = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The agents that it may ask. Choose none to allow all.",
    )

    def __init__(self, *given: Any, agents: Iterable[Agent], key: ApiKey | None = None, **more: Any) -> None:
        if key is not None:
            more["initial"] = {name: getattr(key, name) for name in LIMITS}
            if key.spend_a_day is not None:
                more["initial"]["spend_a_day"] = f"{key.spend_a_day.normalize():f}"
        super().__init__(*given, **more)
        known = {agent.slug: agent.name for agent in agents}
        named = {slug: slug for slug in (key.agents if key is not None else ())}
        self.fields["agents"].choices = list((named | known).items())  # type: ignore[attr-defined]

    @property
    def limits(self) -> KeyLimits:
        """Of a valid form."""
        return KeyLimits(**{name: self.cleaned_data[name] for name in LIMITS})
