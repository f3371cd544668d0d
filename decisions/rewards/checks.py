"""What `manage.py check` says of reward components that an installed package offers in vain."""

from __future__ import annotations

from typing import Any

from django.core.checks import Warning as CheckWarning
from django.core.checks import register

from decisions.rewards.components import COMPONENTS


@register
def check_installed_components(**_: Any) -> list[CheckWarning]:
    hint = "docs/rewards.md says what a component needs. Correct the package, or uninstall it."
    return [CheckWarning(str(refusal), hint=hint, id="decisions.W001") for refusal in COMPONENTS.refusals]
