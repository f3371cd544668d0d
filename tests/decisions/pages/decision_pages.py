"""Addresses of the ledger's pages, for their tests."""

from __future__ import annotations

from django.urls import reverse

from decisions.models import Decision

HTMX = {"HX-Request": "true"}


def at(name: str, decision: Decision, slug: str | None = None) -> str:
    if name == "decisions-list":
        return reverse("pages:decisions", args=[slug or decision.workspace.slug])
    return reverse(f"pages:{name}", args=[slug or decision.workspace.slug, decision.pk])
