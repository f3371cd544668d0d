"""The page that creates an agent, from the set-up of a kind or from an empty one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from decisions.agents.kinds import KINDS
from decisions.agents.revising import find_changes
from decisions.agents.services import AgentSetup, create_agent, kind_setup, kind_unit
from decisions.models import Agent, AgentKind
from decisions.pages.agent_form import NewAgentForm, write_setup
from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

CUSTOM_SETUP = AgentSetup("")


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def agent_new(request: PageRequest) -> HttpResponse:
    """`kind`: whose set-up the form begins with."""
    given = (request.POST or request.GET).get("kind", "")
    kind = given if given in KINDS else AgentKind.CUSTOM.value
    base = kind_setup(kind) if kind in KINDS else CUSTOM_SETUP
    if request.method != "POST":
        name = AgentKind(kind).label if kind in KINDS else ""
        # A limit that was filled in would stay where another action space is chosen.
        unlimited = {} if kind in KINDS else {"max_prompt_tokens": "", "max_completion_tokens": ""}
        initial = write_setup(base) | unlimited | {"kind": kind, "name": name, "unit": kind_unit(kind)}
        return _ask(request, NewAgentForm(initial=initial), kind)
    form = NewAgentForm(request.POST)
    made = _create(request, form, kind, base) if form.is_valid() else None
    if made is None:
        return _ask(request, form, kind, status=400)
    messages.success(request, f"{made.name} was created.")
    return redirect("pages:agent", request.workspace.slug, made.slug)


def _create(request: PageRequest, form: NewAgentForm, kind: str, base: AgentSetup) -> Agent | None:
    """None where the form has faults now. A kind's own set-up brings the kind's reward, which another does not fit."""
    setup = form.read_setup(base)
    told = {name: form.cleaned_data[name] for name in ("slug", "name", "unit")}
    own = kind in KINDS and not find_changes(base, setup)
    try:
        return create_agent(by=request.actor, kind=kind, setup=None if own else setup, **told)
    except InvalidInput as error:
        form.add_faults(error.faults)
        return None


def _ask(request: PageRequest, form: NewAgentForm, kind: str, *, status: int = 200) -> HttpResponse:
    context = {"form": form, "kind": kind, "kinds": AgentKind.choices}
    return render(request, "agents/new.html", context, status=status)
