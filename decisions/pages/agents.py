"""Pages of agents: the list, one agent with its versions, one version with its changes, and making a new one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db.models import Max
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from decisions.agents.arm_setups import find_experiment_on
from decisions.agents.caching import LONGEST_SECONDS, change_cache, may_cache
from decisions.agents.current import find_current_version
from decisions.agents.differences import compare_setups
from decisions.agents.revising import find_changes, rebase_setup, revise_agent, setup_of, switch_agent
from decisions.agents.services import AgentSetup, check_setup
from decisions.errors import OutdatedVersion
from decisions.models import Agent, AgentVersion
from decisions.pages.agent_form import AgentForm, digest_of, write_setup
from decisions.pages.found import get_agent, number_of
from decisions.pages.revision import show_form
from decisions.pages.rewards import describe
from decisions.queries.agents import (
    find_activity,
    find_champion,
    find_running_experiment,
    list_agents,
    list_versions,
)
from decisions.queries.first_answers import find_first_answers
from decisions.queries.first_labels import find_first_labels
from models_registry.errors import ExperimentRunning
from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed
from workspaces.pages.guard import PageRequest, workspace_page


@require_safe
@workspace_page()
def agent_list(request: PageRequest) -> HttpResponse:
    """By name; `after` is the slug of the last one of the page before."""
    after = get_agent(request, request.GET["after"]) if request.GET.get("after") else None
    lines, more = list_agents(request.workspace, after=after)
    return render(request, "agents/list.html", {"lines": lines, "more": more, "after": after})


@require_safe
@workspace_page()
def agent_detail(request: PageRequest, agent: str) -> HttpResponse:
    """The current version in full, and all versions, newest first; `before` is the number of the last one shown."""
    found = get_agent(request, agent)
    given = request.GET.get("before", "")
    before = number_of(given) if given else None
    lines, older = list_versions(found, before=before)
    current = find_current_version(found) if before or found.current_version_id else _first_version(lines)
    champion = find_champion(found)
    context = {
        "agent": found,
        "current": current,
        "cached": current is not None and may_cache(current),
        "champion": champion,
        "first": find_first_labels([found])[found.id] if champion is None and current is not None else None,
        "answers": find_first_answers(found) if champion is None and current is not None and current.chats else None,
        "experiment": find_running_experiment(found),
        "activity": find_activity([found.id])[found.id],
        "lines": lines,
        "before": given,
        "older": urlencode({"before": older}) if older is not None else "",
    }
    if (spec := found.reward_specs.order_by("-number").first()) is not None:
        context |= describe(found, spec)
    return render(request, "agents/detail.html", context)


@require_safe
@workspace_page()
def agent_version(request: PageRequest, agent: str, number: int) -> HttpResponse:
    """One version in full, and what it changed of the version before it."""
    found = get_agent(request, agent)
    version = _get_version(found, number)
    older = found.versions.filter(number__lt=number).order_by("-number").first()
    context = {
        "agent": found,
        "version": version,
        "current": _get_current(found),
        "champion": find_champion(found),
        "older": older,
        "changes": compare_setups(setup_of(older), setup_of(version)) if older is not None else [],
    }
    return render(request, "agents/version.html", context)


@confirmed(back="pages:agent-version")
def agent_version_use(request: PageRequest, agent: str, number: int) -> Confirmation:
    """GET asks, POST makes the version the one that acts."""
    found = get_agent(request, agent)
    version = _get_version(found, number)
    return Confirmation(
        title=f"Use version {number} of {found.name}?",
        explanation=f"It is used from the next decision, in place of version {_get_current(found).number}, which stays "
        "and can be used again.",
        button=f"Use version {number}",
        do=lambda: switch_agent(by=request.actor, version=version),
        done=f"{found.name} uses version {number} now.",
        dangerous=False,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def agent_edit(request: PageRequest, agent: str) -> HttpResponse:
    """The form; POST shows what it would change, and with `make` makes the version that was shown: to be used, or with
    the value `keep` to be tried."""
    found = get_agent(request, agent)
    current = _get_current(found)
    if request.method != "POST":
        return _ask(request, found, current, AgentForm(initial=_values(current.number, setup_of(current))))
    form = AgentForm(request.POST)
    base, mine = _read(found, form)
    if base is None or mine is None:
        return _ask(request, found, current, form, status=400)
    if base.number != current.number:
        return _show_outdated(request, found, base, mine)
    if not find_changes(setup_of(current), mine):
        return _ask(request, found, current, form, unchanged=True)
    digest = digest_of(current.number, mine)
    if "make" not in request.POST or form.cleaned_data["seen"] != digest:
        return _preview(request, found, current, mine, unseen="make" in request.POST)
    try:
        changes = {name: getattr(mine, name) for name in find_changes(setup_of(base), mine)}
        acts = request.POST["make"] != "keep"
        made = revise_agent(by=request.actor, agent=found, expected=base.number, changes=changes, acts=acts)
    except ExperimentRunning as error:
        return _preview(request, found, current, mine, refused=error.message, status=error.status)
    except OutdatedVersion:  # someone else changed it between the check above and the lock
        return _show_outdated(request, found, base, mine)
    number = made.version.number
    if not acts:
        messages.success(request, f"{found.name} has version {number} now. It is not used; an experiment can try it.")
        return redirect("pages:agent-version", request.workspace.slug, found.slug, number)
    messages.success(request, f"{found.name} has version {number} now.")
    return redirect("pages:agent", request.workspace.slug, found.slug)


class CacheForm(forms.Form):
    seconds = forms.IntegerField(
        min_value=0,
        max_value=LONGEST_SECONDS,
        label="Seconds",
        help_text="For how long a greedy answer is given again to the same question or problem. 0 turns the cache off; "
        "30 days at most.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def agent_cache(request: PageRequest, agent: str) -> HttpResponse:
    """For how long greedy answers of its chats are given again."""
    found = get_agent(request, agent)
    form = CacheForm(request.POST or None, initial={"seconds": found.cache_seconds})
    if request.method == "POST" and form.is_valid():
        try:
            change_cache(by=request.actor, agent=found, seconds=form.cleaned_data["seconds"])
        except InvalidInput as error:
            for fault in error.faults:
                form.add_error("seconds", fault.says)
        else:
            messages.success(request, f"The cache of {found.name} is changed.")
            return redirect("pages:agent", request.workspace.slug, found.slug)
    status = 400 if request.method == "POST" else 200
    return render(request, "agents/cache.html", {"agent": found, "form": form}, status=status)


def _read(agent: Agent, form: AgentForm) -> tuple[AgentVersion | None, AgentSetup | None]:
    """The version that the form began with, and what it makes of it; None where the form is not usable."""
    if not form.is_valid():
        return None, None
    base = agent.versions.filter(number=form.cleaned_data["base"]).first()
    if base is None:
        form.add_error(None, "The version that this form began with does not exist. Open the form again.")
        return None, None
    mine = form.read_setup(setup_of(base))
    try:
        check_setup(mine)
    except InvalidInput as error:
        form.add_faults(error.faults)
        return base, None
    return base, mine


def _preview(request: PageRequest, agent: Agent, current: AgentVersion, mine: AgentSetup, **told: Any) -> HttpResponse:
    """The form as it was sent, above it what it changes, which may now be made."""
    form = AgentForm(initial=_values(current.number, mine) | {"seen": digest_of(current.number, mine)})
    return _ask(request, agent, current, form, changes=compare_setups(setup_of(current), mine), **told)


def _show_outdated(request: PageRequest, agent: Agent, base: AgentVersion, mine: AgentSetup) -> HttpResponse:
    """Someone else made a version meanwhile: what that changed, and the person's own change on top of it."""
    current = _get_current(agent)
    merged = rebase_setup(base=setup_of(base), mine=mine, newest=setup_of(current))
    made_by = next((line.made_by for line in list_versions(agent)[0]), "")
    told = {
        "outdated": base,
        "theirs": compare_setups(setup_of(base), setup_of(current)),
        "made_by": made_by,
        "status": 409,
    }
    return _preview(request, agent, current, merged, **told)


def _ask(request: PageRequest, agent: Agent, current: AgentVersion, form: AgentForm, **told: Any) -> HttpResponse:
    experiment = find_running_experiment(agent)
    told["pinned"] = experiment is not None and find_experiment_on(agent) is not None
    told["next_number"] = agent.versions.aggregate(last=Max("number"))["last"] + 1
    return show_form("agents/edit.html", request, agent, current, form, experiment=experiment, **told)


def _values(base: int, setup: AgentSetup) -> dict[str, Any]:
    return {"base": base, **write_setup(setup)}


def _get_current(agent: Agent) -> AgentVersion:
    version = find_current_version(agent)
    if version is None:
        raise Http404("This agent has no version.")
    return version


def _get_version(agent: Agent, number: int) -> AgentVersion:
    version = agent.versions.filter(number=number).first() if number < 2**31 else None
    if version is None:
        raise Http404("Version not found.")
    return version


def _first_version(lines: list[Any]) -> AgentVersion | None:
    return lines[0].version if lines else None
