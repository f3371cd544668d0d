"""The page that edits a reward spec: the form, a file in YAML, what either changes, and a draft to try on history."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from decisions.agents.caching import takes_options
from decisions.agents.current import find_current_version
from decisions.errors import InvalidRewardSpec, OutdatedVersion
from decisions.models import Agent, AgentKind, RewardSpec
from decisions.pages.found import get_agent
from decisions.pages.revision import show_form
from decisions.pages.reward_form import RewardSpecForm, digest_of, write_content
from decisions.pages.rewards import get_newest_spec
from decisions.queries.reward_specs import compare_specs, list_specs
from decisions.rewards.components.defaults import CHOOSER, PRESETS, TRACES, VERDICT_ONLY, Preset
from decisions.rewards.judged import find_judge_faults
from decisions.rewards.revising import rebase_content, revise_reward_spec
from decisions.rewards.spec_content import (
    SpecContent,
    check_content,
    compare_contents,
    complete,
    preset_content,
    read_content,
)
from decisions.rewards.specs import content_of
from decisions.rewards.what_if import draft_reward_spec
from workspaces.errors import FieldFault, InvalidInput, TooLarge
from workspaces.http.yaml_text import MOST_BYTES, read_yaml
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

_ask = partial(show_form, "rewards/edit.html")


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def agent_rewards_edit(request: PageRequest, agent: str) -> HttpResponse:
    """The form; POST shows what it would change, with `make` makes the version that was shown, and with `draft` a draft
    of it."""
    found = get_agent(request, agent)
    newest = get_newest_spec(found)
    if request.method != "POST":
        return _ask(request, found, newest, _form(found, newest.number, _begin_with(request, found, newest)))
    if "upload" in request.POST:
        return _read_file(request, found, newest)
    form = RewardSpecForm(found.kind, request.POST)
    base, mine = _read(found, form)
    if base is None or mine is None:
        return _ask(request, found, newest, form, status=400)
    if base.number != newest.number:
        return _show_outdated(request, found, base, mine)
    if not compare_contents(content_of(newest), mine):
        return _ask(request, found, newest, form, unchanged=True)
    making = "make" in request.POST
    if "draft" not in request.POST and (not making or form.cleaned_data["seen"] != digest_of(newest.number, mine)):
        return _preview(request, found, newest, mine, unseen=making)
    try:
        if "draft" in request.POST:
            draft = draft_reward_spec(by=request.actor, agent=found, expected=base.number, content=mine)
            return redirect("pages:reward-draft", request.workspace.slug, found.slug, draft.id)
        made = revise_reward_spec(by=request.actor, agent=found, expected=base.number, content=mine)
    except OutdatedVersion:  # someone else changed it between the check above and the lock
        return _show_outdated(request, found, base, mine)
    messages.success(request, f"{found.name} has reward spec {made.spec.number} now. Its rewards are being calculated.")
    return redirect("pages:agent-rewards", request.workspace.slug, found.slug)


def _find_preset(agent: Agent) -> Preset:
    """What a new agent of the kind begins with."""
    version = find_current_version(agent)
    if agent.kind == AgentKind.CUSTOM and version is not None and takes_options(version):
        return CHOOSER
    return PRESETS.get(agent.kind, VERDICT_ONLY)


def _begin_with(request: PageRequest, agent: Agent, newest: RewardSpec) -> SpecContent:
    """What the address names: a preset, an older version, or a draft, whose changes go on top of the newest version;
    else the newest version."""
    preset = request.GET.get("preset")
    if preset is not None:
        return preset_content(TRACES if preset == "traces" else _find_preset(agent))
    if (number := request.GET.get("from", "")).isascii() and number.isdecimal() and len(number) < 10:
        spec = agent.reward_specs.filter(number=int(number)).first()
        if spec is None:
            raise Http404("Version not found.")
        return content_of(spec)
    if given := request.GET.get("draft"):
        try:
            draft = agent.reward_drafts.select_related("base").filter(id=uuid.UUID(given)).first()
        except ValueError:
            draft = None
        if draft is None:
            raise Http404("Draft not found.")
        mine = complete(read_content(draft.content))
        return rebase_content(base=content_of(draft.base), mine=mine, newest=content_of(newest))
    return content_of(newest)


def _read(agent: Agent, form: RewardSpecForm) -> tuple[RewardSpec | None, SpecContent | None]:
    """The version that the form began with, and what it makes of it, complete; None where the form is not usable."""
    if not form.is_valid():
        return None, None
    base = agent.reward_specs.filter(number=form.cleaned_data["base"]).first()
    if base is None:
        form.add_error(None, "The version that this form began with does not exist. Open the form again.")
        return None, None
    mine = form.read_content()
    if faults := check_content(mine) or find_judge_faults(agent, mine.judges):
        form.add_faults(faults, mine)
        return base, None
    return base, complete(mine)


def _read_file(request: PageRequest, agent: Agent, newest: RewardSpec) -> HttpResponse:
    """What a file in YAML would change; nothing is saved."""
    file = request.FILES.get("file")
    try:
        if file is None:
            raise InvalidInput("Choose a file first.")
        if (file.size or 0) > MOST_BYTES:
            raise TooLarge(f"The file has {file.size} bytes; at most {MOST_BYTES} are allowed.")
        mine = complete(read_content(read_yaml(file.read())))
        if refused := find_judge_faults(agent, mine.judges):
            raise InvalidRewardSpec("The reward spec is invalid.", faults=refused)
    except (InvalidInput, TooLarge) as error:
        faults = error.faults if isinstance(error, InvalidRewardSpec) else (FieldFault("", error.message),)
        form = _form(agent, newest.number, content_of(newest))
        told = {fault.field: _tell(fault) for fault in faults}
        return _ask(request, agent, newest, form, file_faults=told, status=400)
    if not compare_contents(content_of(newest), mine):
        return _ask(request, agent, newest, _form(agent, newest.number, mine), unchanged=True)
    return _preview(request, agent, newest, mine)


def _tell(fault: FieldFault) -> str:
    place = f"{fault.field}: " if fault.field else ""
    return f"{place}{fault.reason}" + (f"; expected: {fault.expected}" if fault.expected else "")


def _preview(request: PageRequest, agent: Agent, newest: RewardSpec, mine: SpecContent, **told: Any) -> HttpResponse:
    """The form as it was sent, above it what it changes, which may now be made."""
    form = _form(agent, newest.number, mine, seen=digest_of(newest.number, mine))
    return _ask(request, agent, newest, form, changes=compare_specs(content_of(newest), mine), **told)


def _show_outdated(request: PageRequest, agent: Agent, base: RewardSpec, mine: SpecContent) -> HttpResponse:
    """Someone else made a version meanwhile: what that changed, and the person's own change on top of it."""
    newest = get_newest_spec(agent)
    merged = rebase_content(base=content_of(base), mine=mine, newest=content_of(newest))
    told = {
        "outdated": base,
        "theirs": compare_specs(content_of(base), content_of(newest)),
        "made_by": next((line.made_by for line in list_specs(agent)[0]), ""),
        "status": 409,
    }
    return _preview(request, agent, newest, merged, **told)


def _form(agent: Agent, base: int, content: SpecContent, *, seen: str = "") -> RewardSpecForm:
    return RewardSpecForm(agent.kind, initial={"base": base, "seen": seen, **write_content(content)})
