"""Pages that start runs: the form, and the button that trains on new decisions. Where something is missing, they say
what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from decisions.models import Agent
from decisions.queries.first_labels import FirstLabels, find_first_labels
from jobs.models import Job
from training.engine.machine.facts import this_machine
from training.errors import InvalidRun
from training.loops.first_model.services import can_train, find_all_readiness, start_training
from training.models import DatasetKind, DatasetSnapshot
from training.pages.first_model_form import FirstModelForm
from training.pages.run_form import RunForm, values_of_plan, values_of_run
from training.pages.runs import as_id
from training.pages.suited_methods import suit_methods
from training.runs.defaults.presets import PRESETS
from training.runs.defaults.starting import apply_preset
from training.runs.defaults.values import Defaults, find_defaults
from training.runs.estimates.capacity import recommend_here
from training.runs.new_decisions import Readiness
from training.runs.services import RunPlan, check_plan, prepare_run, start_run
from training.runs.shown.lookup import get_run
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page

AGENTS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do before a run can start, and where."""

    what: str
    why: str
    action: str
    url: str


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def run_start(request: PageRequest) -> HttpResponse:
    """GET shows the form with values that start: those of a run (`like`), of a `dataset`, with a `preset` if given, or
    the best there is for an `agent` or for any. POST starts what it asks for, or with `check` only says what that would
    need."""
    if request.method == "POST":
        form = RunForm(request.POST, workspace=request.workspace)
        valid, read = form.is_valid(), form.read_plan()
        try:
            if valid and read is not None:
                if "check" in request.POST:
                    return _show(request, {"form": form, "checked": True}, read)
                run = start_run(by=request.actor, agent=read[0], plan=read[1])
                messages.success(request, "The run is queued.")
                return redirect("pages:run", request.workspace.slug, run.pk)
            if read is not None:
                check_plan(*read)  # so that faults of the plan and of single fields are shown together
        except InvalidRun as error:
            form.add_faults(error.faults)
        # What is asked while somebody fills in the form is no mistake yet.
        return _show(request, {"form": form}, status=200 if request.htmx else 400)
    if request.GET.get("like"):
        like = get_run(request, as_id(request.GET["like"], "like"))
        form = RunForm(initial=values_of_run(like), workspace=request.workspace)
        return _show(request, {"form": form, "like": like})
    dataset = _find_dataset(request)
    defaults = _find_defaults(request, dataset)
    chosen = _choose(defaults, dataset)
    if chosen is None:
        without = [one.agent for one in defaults if one.base is None] if dataset is None else []
        first = list(find_first_labels(without).values())
        context = {
            "first": first,
            "ready": any(one.ready for one in first),
            "steps": list(_find_steps(request, defaults, dataset)),
            "dataset": dataset,
        }
        return render(request, "training/run_missing.html", context)
    if request.GET.get("preset") in PRESETS:
        chosen = chosen[0], apply_preset(chosen[1], request.GET["preset"])
        form = RunForm(initial=values_of_plan(*chosen), workspace=request.workspace)
        return _show(request, {"form": form, "plan": chosen[1]})  # whether it can start, the form asks
    form = RunForm(initial=values_of_plan(*chosen), workspace=request.workspace)
    return _show(request, {"form": form, "plan": chosen[1]}, chosen)


def _show(
    request: PageRequest, context: dict[str, Any], plan: tuple[Agent, RunPlan] | None = None, status: int = 200
) -> HttpResponse:
    """The form beside this machine; with a `plan` that starts, what it needs. Raises InvalidRun for one that does
    not."""
    dataset = context["form"].chosen_dataset
    prepared = prepare_run(*plan) if plan is not None else None
    about = {
        "machine": this_machine(),
        "suited": suit_methods(dataset) if dataset is not None else [],
        "recommended": recommend_here(),
        "presets": [one for one in PRESETS.values() if dataset is not None and dataset.row_kind is one.rows],
        "estimate": prepared.estimate if prepared is not None else None,
        "unchecked": prepared.unchecked if prepared is not None else "",
    }
    return render(request, "training/run_form.html", context | about, status=status)


def _find_dataset(request: PageRequest) -> DatasetSnapshot | None:
    if not request.GET.get("dataset"):
        return None
    pk = as_id(request.GET["dataset"], "dataset")
    found = DatasetSnapshot.objects.for_workspace(request.workspace).select_related("agent").filter(pk=pk).first()
    if found is None:
        raise Http404("Dataset not found.")
    return found


def _find_defaults(request: PageRequest, dataset: DatasetSnapshot | None) -> list[Defaults]:
    """Of the dataset's agent, of the one that is asked for, or of each."""
    agents = Agent.objects.for_workspace(request.workspace).order_by("name")
    if dataset is not None:
        agents = agents.filter(pk=dataset.agent_id)
    elif request.GET.get("agent"):
        agents = agents.filter(slug=request.GET["agent"])
    return list(find_defaults(request.workspace, list(agents[:AGENTS])).values())


def _choose(defaults: Sequence[Defaults], dataset: DatasetSnapshot | None) -> tuple[Agent, RunPlan] | None:
    """A plan that starts, one that learns from decisions before one that makes a first model; None without any."""
    plans = [(one.agent, plan) for one in defaults if (plan := one.plan(dataset)) is not None]
    for agent, plan in sorted(plans, key=lambda pair: pair[1].dataset.kind != DatasetKind.LOGGED):
        try:
            check_plan(agent, plan)
        except InvalidRun:
            continue
        return agent, plan
    return None


def _find_steps(request: PageRequest, defaults: Sequence[Defaults], dataset: DatasetSnapshot | None) -> Iterator[Step]:
    """What is missing, in the order in which it is needed."""

    def at(name: str) -> str:
        return reverse(f"pages:{name}", args=[request.workspace.slug])

    if dataset is not None and dataset.marked_at is not None:
        why = "Some of its rows were erased, so it can no longer be used for training. A new dataset leaves them out."
        yield Step("Create a new dataset", why, "Create a dataset", at("dataset-make"))
        return
    if not defaults:
        why = "An agent defines the prompt and the options."
        yield Step("Connect an app", why, "Connect an app", at("connect"))
    texts = _find_texts(defaults) if dataset is None else None
    if texts is not None:
        why = "Its texts can be taught to a pretrained model, which is the first version then."
        yield Step(f"Train on {texts.name}", why, "Start a run", f"{at('run-start')}?dataset={texts.id}")
    elif dataset is None and defaults and all(one.writes for one in defaults):
        why = "A pretrained model, or the agent’s version, learns from its texts by reward_weighted or sft."
        url = f"{at('dataset-make')}?agent={defaults[0].agent.slug}&kind={DatasetKind.TEXT}"
        yield Step("Create a dataset of rewarded texts", why, "Create a dataset", url)
    elif not any(one.base is not None or one.labelled is not None for one in defaults):
        why = (
            "The first model learns from texts with known right answers. Import a file of them, and import some of"
            " them under the name “held-out rows”. Runs are evaluated on those and never trained on them."
        )
        yield Step("Import labelled rows", why, "Import a file", at("import-new"))
    elif dataset is not None and dataset.is_of_tasks and not any(one.base is not None for one in defaults):
        why = "A model that has seen some demonstrations learns much sooner by acting. Draw them with the tasks."
        shown = dataset.statistics.get("demonstrations")
        url = at("run-start") + (f"?dataset={shown}" if shown else "")
        yield Step("Train a first model", why, "Start a run", url)
    elif dataset is not None and not any(one.base is not None for one in defaults):
        why = "The first model learns from labelled rows. Later ones learn from decisions and corrections."
        yield Step("Train a first model", why, "Start a run", at("run-start"))
    elif not any(one.logged is not None for one in defaults):
        why = "A run learns from rewarded decisions."
        yield Step("Create a dataset", why, "Create a dataset", at("dataset-make"))


def _find_texts(defaults: Sequence[Defaults]) -> DatasetSnapshot | None:
    """The newest dataset of texts that teaches an agent without a model."""
    agents = [one.agent for one in defaults if one.base is None]
    found = DatasetSnapshot.objects.filter(agent__in=agents, kind=DatasetKind.TEXT, marked_at=None)
    return next((one for one in found.order_by("-id")[:AGENTS] if one.can_teach), None)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def train_new(request: PageRequest) -> HttpResponse:
    """POST trains an agent: the one that is named, or the only one that can be. It learns from its new decisions, or
    where it has no model, from people's verdicts. GET shows for each agent what that would do, or what is missing for
    it."""
    if request.method == "POST" and "agent" in request.POST:
        agent = Agent.objects.for_workspace(request.workspace).filter(slug=request.POST["agent"]).first()
        if agent is None:
            raise Http404("Agent not found.")
        if not {"base_model", "weights"} & request.POST.keys():
            return _follow(request, start_training(by=request.actor, agent=agent))
        return _train_first(request, agent)
    agents = find_all_readiness(request.workspace)
    if request.method == "POST":
        ready = [one.agent for one, first in agents if can_train(one, first)]
        under_way = [one.under_way for one, _ in agents if one.under_way is not None]
        if len(ready) == 1:
            return _follow(request, start_training(by=request.actor, agent=ready[0]))
        if not ready and len(under_way) == 1:
            return _follow(request, under_way[0])
        return redirect("pages:train-new", request.workspace.slug)
    return _show_agents(request, agents)


def _train_first(request: PageRequest, agent: Agent) -> HttpResponse:
    """The first model from the base that was chosen; what keeps it from starting is shown beside the choice."""
    agents = find_all_readiness(request.workspace)
    chosen = next(((one, first) for one, first in agents if one.agent == agent and first is not None), None)
    if chosen is None or chosen[1] is None:
        return _follow(request, start_training(by=request.actor, agent=agent))
    form = FirstModelForm(request.POST, first=chosen[1], root=chosen[0].defaults.root)
    if form.is_valid():
        base, lora = form.read()
        try:
            return _follow(request, start_training(by=request.actor, agent=agent, base_model=base, lora=lora))
        except InvalidRun as error:
            form.add_faults(error.faults)
    return _show_agents(request, agents, form)


def _show_agents(
    request: PageRequest, agents: Sequence[tuple[Readiness, FirstLabels | None]], refused: FirstModelForm | None = None
) -> HttpResponse:
    """`refused`: the form of one of them with what is wrong."""
    shown = []
    for one, first in agents:
        form = FirstModelForm(first=first, root=one.defaults.root) if first is not None and first.ready else None
        shown.append((one, first, refused if refused is not None and refused.first.agent == one.agent else form))
    return render(request, "training/train_new.html", {"agents": shown}, status=200 if refused is None else 400)


def _follow(request: PageRequest, job: Job) -> HttpResponse:
    return redirect("pages:dataset-making", request.workspace.slug, job.pk)
