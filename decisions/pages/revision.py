"""The page with a form that makes a next version: of an agent, or of its reward spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import render

from decisions.agents.differences import Difference
from decisions.models import Agent, AgentVersion, RewardSpec
from workspaces.pages.guard import PageRequest


def show_form(
    template: str,
    request: PageRequest,
    agent: Agent,
    newest: AgentVersion | RewardSpec,
    form: Form,
    *,
    changes: Sequence[Difference] | None = None,
    status: int = 200,
    **told: Any,
) -> HttpResponse:
    """`newest` is the version that a new one would follow, `changes` what the form would change of it; None where it
    was not compared. `told`: what else the template shows."""
    context = {
        "agent": agent,
        "newest": newest,
        "next_number": newest.number + 1,
        "form": form,
        "changes": changes,
        **told,
    }
    return render(request, template, context, status=status)
