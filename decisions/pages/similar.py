"""The page of decisions that are like one, from which those that are meant are labelled in bulk."""

from __future__ import annotations

import uuid

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from decisions.labelling.similar import find_similar
from decisions.pages.cards import get_decision, show_in_order
from decisions.queries.decision_shown import show_decision
from workspaces.pages.guard import PageRequest, workspace_page

CHOSEN = 0.8
"""From this similarity on a decision is selected beforehand."""


@require_safe
@workspace_page()
def decision_similar(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """The most similar first."""
    decision = get_decision(request, pk)
    similar = find_similar(decision)
    alike = dict(similar.found)
    rows = [(shown, alike[shown.decision.id]) for shown in show_in_order(request, alike)]
    context = {
        "shown": show_decision(decision),
        "rows": [(shown, share, share >= CHOSEN and not shown.verdict) for shown, share in rows],
        "compared": similar.compared,
    }
    return render(request, "decisions/similar.html", context)
