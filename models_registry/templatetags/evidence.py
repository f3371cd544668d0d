"""Writes e-values on pages in one way."""

from django import template

from models_registry.statistics.promotion import write_e

register = template.Library()


@register.filter
def as_e(log_e: float) -> str:
    """A natural logarithm as the e-value: 3.105 → 22.3."""
    return write_e(log_e)
