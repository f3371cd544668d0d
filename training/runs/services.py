"""Starts, moves and cancels runs. Every move is a compare-and-set with an event row in its transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic
from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from decisions.models import Agent
from jobs.errors import AlreadyFinished
from jobs.services import enqueue_job, request_cancel
from models_registry.artifacts.holders import require_files
from models_registry.artifacts.quota import refuse_over_quota
from models_registry.experiments.promotion import promote_version
from models_registry.models import ModelVersion
from training.engine.machine.facts import this_machine, why_no_quantisation
from training.engine.spec.methods import METHODS, TRAINING, WHAT_LACKS, Method, Need, RowKind
from training.engine.spec.right_from import RIGHT_FROM
from training.engine.spec.run_spec import HELD_OUT, ORDERED, RunSpec, find_reward_faults
from training.errors import InvalidRun, RunOver
from training.models import DatasetItem, DatasetKind, DatasetSnapshot, RunEvent, TrainingRun
from training.rows.decision_fields import find_compared
from training.rows.prompt_forms import find_other_prompts
from training.rows.text_answers import find_text_faults
from training.run_states import TERMINAL_STATES, RunState, check_transition
from training.runs.architectures import find_base_faults, tell_unchecked
from training.runs.base_models import MADE_HERE, TINY, WORDS, hub_ids, is_allowed_base, why_no_model, why_not_for
from training.runs.classifiers import encoder_of, find_classifier_faults, find_encoder, place_encoder
from training.runs.estimates.capacity import (
    Load,
    estimate_load,
    find_shortages,
    sample_completion_tokens,
    sample_prompt_tokens,
)
from training.runs.estimates.needs import Estimate
from training.runs.judges import TO_CHECK, find_judge_faults
from training.runs.on_tasks import count_most_steps, find_task_faults
from training.runs.reward_models import find_reward_model_faults, find_reward_version, place_reward_model
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault
from workspaces.notes import find_note_faults

SUPERVISE = "training.supervise_run"
# Fields of the engine's spec that the run fills in itself.
OWN_FIELDS = ("schema_version", "run_id", "method", "data")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What someone asks for. `settings` are fields of the engine's RunSpec (optimiser, lora, posterior, …).

    Exactly one of `base_version` and `base_model` (a folder, a hub id, or `tiny` with the method pretrain).
    """

    method: str
    dataset: DatasetSnapshot
    base_version: ModelVersion | None = None
    base_model: str = ""
    heldout: DatasetSnapshot | None = None
    replay: DatasetSnapshot | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def start_run(*, by: Actor, agent: Agent, plan: RunPlan, tags: Sequence[str] = (), notes: str = "") -> TrainingRun:
    """Checks everything before it queues anything. Raises InvalidRun with every fault, QuotaExceeded, and
    ArtifactRemoved for a base whose files are gone."""
    if faults := find_note_faults(tags, notes):
        raise InvalidRun("The run cannot start with these notes.", faults=faults)
    prepared = prepare_run(agent, plan)
    estimate = prepared.estimate.as_plain() if prepared.estimate is not None else {}
    refuse_over_quota(by.workspace)
    with transaction.atomic():
        require_files(plan.base_version, _reward_model_of(prepared.spec), encoder_of(agent.workspace, prepared.spec))
        run = TrainingRun.objects.create(
            workspace=by.workspace,
            agent=agent,
            method=plan.method,
            dataset=plan.dataset,
            replay=plan.replay,
            heldout=plan.heldout,
            base_version=plan.base_version,
            base_model=plan.base_model,
            spec=prepared.spec,
            estimate=estimate,
            tags=sorted(set(tags)),
            notes=notes,
            requested_by=by.name,
        )
        run.job = enqueue_job(kind=SUPERVISE, workspace=by.workspace, payload={"run_id": str(run.id)})
        run.save(update_fields=["job"])
        told = {"estimate": estimate, "unchecked": prepared.unchecked}
        _record(run, "queued", {"by": by.name} | {name: what for name, what in told.items() if what})
        record_audit(by=by, action="run.started", target=f"run:{run.id}", details={"method": plan.method})
    return run


def _reward_model_of(spec: Mapping[str, Any]) -> ModelVersion | None:
    named = find_reward_version(spec)
    return ModelVersion.objects.filter(id=named).first() if named is not None else None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan that can start: its spec without paths, and what it will need; None of a base of unknown size.
    `unchecked`: what of its base is checked only later, and why; "" where nothing is."""

    spec: dict[str, Any]
    estimate: Estimate | None
    unchecked: str = ""


def check_plan(agent: Agent, plan: RunPlan) -> dict[str, Any]:
    """The spec without its paths, checked as the engine will check it. Raises InvalidRun with every fault."""
    return prepare_run(agent, plan).spec


def prepare_run(agent: Agent, plan: RunPlan) -> Prepared:
    """The spec as the engine will check it, and an estimate that fits this machine. Raises InvalidRun with every
    fault."""
    faults = _find_faults(agent, plan)
    spec: dict[str, Any] = {
        "checkpoint_every_seconds": settings.CHECKPOINT_SECONDS,
        **plan.settings,
        "method": plan.method,
    }
    estimate = None
    if not faults:
        try:
            checked = RunSpec.model_validate(engine_spec(spec, plan, run_id="check", paths=_paths_to_check(plan)))
        except pydantic.ValidationError as error:
            faults += [
                FieldFault(".".join(map(str, fault["loc"])), str(fault["msg"]), "see docs/engine.md")
                for fault in error.errors()
            ]
        else:
            faults += [
                FieldFault("settings.reward", fault, "a component, or a rule") for fault in find_reward_faults(checked)
            ]
            if checked.quantisation is not None and (lack := why_no_quantisation(this_machine())):
                faults.append(FieldFault("settings.quantisation", lack, "CUDA with bitsandbytes, or leave it out"))
            if plan.heldout is not None:
                faults += find_text_faults("heldout", plan.heldout, checked.kto.right_from)
                if fault := find_other_prompts(plan.heldout, (plan.dataset, plan.replay), plan.base_version):
                    faults.append(FieldFault("heldout", fault, "rows of the prompts that the run learns from"))
            load = _load_of(plan)
            faults += find_base_faults(checked, load)
            estimate = estimate_load(checked, load)
            if estimate is not None:
                faults += find_shortages(checked, load, estimate)
    if faults:
        raise InvalidRun("The run cannot start with these settings.", faults=faults)
    return Prepared(spec, estimate, tell_unchecked(plan.base_model))


def find_faults_of_base(run: TrainingRun) -> list[FieldFault]:
    """Of a run that is queued: why the base that it names cannot be trained as it asks."""
    plan = RunPlan(run.method, run.dataset, None, run.base_model, run.heldout, run.replay, run.spec)
    checked = RunSpec.model_validate(engine_spec(run.spec, plan, run_id="check", paths=_paths_to_check(plan)))
    return find_base_faults(checked, _load_of(plan))


def _load_of(plan: RunPlan) -> Load:
    rows = plan.dataset.rows + (plan.replay.rows if plan.replay is not None else 0)
    heldout = plan.heldout.rows if plan.heldout is not None else 0
    prompt, completion = sample_prompt_tokens(plan.dataset), sample_completion_tokens(plan.dataset)
    steps = count_most_steps(plan.dataset, plan.heldout)
    without = Need.PROPENSITY not in plan.dataset.find_has()
    return Load(
        plan.base_version,
        plan.base_model,
        rows,
        heldout,
        prompt,
        completion,
        episode_steps=steps,
        without_propensity=without,
    )


def _find_faults(agent: Agent, plan: RunPlan) -> list[FieldFault]:
    """What is wrong with the plan itself, before its settings are read as the engine reads them."""
    faults: list[FieldFault] = []
    method = TRAINING.get(plan.method)
    if method is None:
        faults.append(FieldFault("method", f"{plan.method!r} is unknown", ", ".join(TRAINING)))
    if (plan.base_version is None) == (plan.base_model == ""):
        faults.append(FieldFault("base_version", "give exactly one of base_version and base_model", "what to train"))
    if plan.base_model == TINY and method is not None and not method.makes_model:
        faults.append(FieldFault("base_model", f"{plan.method} cannot begin with a new model", "a version"))
    if plan.base_model == WORDS and method is not None and not method.makes_classifier:
        faults.append(FieldFault("base_model", f"{plan.method} needs a model", f"{TINY}, or a version"))
    if plan.base_model and not is_allowed_base(plan.base_model):
        allowed = ", ".join([*MADE_HERE, *hub_ids()])
        faults.append(FieldFault("base_model", "is not allowed here", f"{allowed}, or what RECKONER_BASE_MODELS names"))
    elif plan.base_model and (lack := why_no_model(plan.base_model)):
        faults.append(FieldFault("base_model", lack, "a folder of weights"))
    elif method is not None and plan.base_model.startswith("/"):
        lack = why_not_for(plan.method, plan.base_model, Path(plan.base_model))
        faults += [FieldFault("base_model", lack, "another base, or another method")] if lack is not None else []
    if method is not None:
        faults += find_classifier_faults(agent.workspace, method, plan.base_version, plan.settings)
    if plan.base_version is not None and plan.base_version.is_remote:
        faults.append(
            FieldFault("base_version", f"{plan.base_version} is a remote model", "a version whose weights are here")
        )
    elif plan.base_version is not None and plan.base_version.is_reward_model:
        faults.append(
            FieldFault("base_version", f"{plan.base_version} is a reward model", "a version that is a policy")
        )
    elif plan.base_version is not None and plan.base_version.is_adapter and plan.base_version.base is None:
        over = plan.base_version.base_model or "a model"
        fault = f"{plan.base_version} is an adapter over {over}, which is not a version"
        faults.append(FieldFault("base_version", fault, "full weights, or an adapter over another version"))
    if method is not None:
        faults += _find_lacks(method, plan)
        missing = method.find_missing(plan.dataset.row_kind)
        faults += [FieldFault("method", missing, "another method")] if missing is not None else []
    orders = method is not None and method.makes_reward_model
    if plan.heldout is not None and plan.heldout.row_kind not in (ORDERED if orders else HELD_OUT):
        wanted = "labelled or preference rows" if orders else "labelled rows, decisions, texts, or tasks"
        faults.append(FieldFault("heldout", f"has {plan.heldout.row_kind or plan.heldout.kind} rows", wanted))
    faults += find_task_faults(plan.dataset, plan.heldout, plan.settings)
    faults += find_reward_model_faults(agent, plan.settings)
    faults += find_judge_faults(agent, plan.dataset, plan.settings)
    if plan.replay is not None and plan.replay.kind != DatasetKind.LABELLED:
        faults.append(FieldFault("replay", f"has {plan.replay.kind} rows", "labelled rows"))
    kind = plan.dataset.row_kind
    if plan.replay is not None and method is not None and kind in method.learns_from and not method.replays(kind):
        faults.append(FieldFault("replay", f"{method.name} learns from {kind} rows and replays none", "leave it out"))
    for name in ("heldout", "replay"):
        dataset = getattr(plan, name)
        is_text = name == "heldout" and dataset is not None and dataset.row_kind is RowKind.TEXT
        if dataset is not None and not is_text and dataset.kind == DatasetKind.LABELLED and not dataset.has_answers:
            count = dataset.statistics["without_options"]
            faults.append(FieldFault(name, f"{count} of its rows choose among no options", "rows with options"))
    if plan.heldout is not None and _is_learnt_from(plan.heldout, plan):
        faults.append(FieldFault("heldout", "has decisions that the run learns from", "rows of other decisions"))
    for name in ("dataset", "heldout", "replay", "base_version"):
        owned = getattr(plan, name)
        if owned is not None and owned.workspace_id != agent.workspace_id:
            faults.append(FieldFault(name, "does not exist in this workspace", "a dataset of this workspace"))
    for name in ("dataset", "heldout", "replay"):
        dataset = getattr(plan, name)
        if dataset is not None and dataset.marked_at is not None:
            faults.append(FieldFault(name, f"{dataset.erased_rows} of its rows were erased", "rebuild the dataset"))
    for name in sorted(set(plan.settings) & set(OWN_FIELDS)):
        faults.append(FieldFault(f"settings.{name}", "is filled in by the run", "leave it out"))
    base = plan.settings.get("base", {})
    if not isinstance(base, Mapping) or set(base) - {"tiny"}:
        faults.append(FieldFault("settings.base", "is given by base_version or base_model", "at most {tiny: shape}"))
    return faults


def _find_lacks(method: Method, plan: RunPlan) -> list[FieldFault]:
    """Why the method cannot learn from the dataset; what the settings have is the spec's to check."""
    dataset, kind = plan.dataset, plan.dataset.row_kind
    if kind is None or kind not in method.learns_from:
        wanted = " or ".join(method.learns_from)
        return [FieldFault("dataset", f"{method.name} cannot learn from {kind or dataset.kind} rows", f"{wanted} rows")]
    fresh = {Need.REWARDED_GROUPS} if plan.settings.get("reward") else set()
    right_from = _right_from(plan.settings)
    lacks = method.find_lacks(kind, {*dataset.find_has(right_from), Need.REWARD_FUNCTION, *fresh})
    return [FieldFault("dataset", dataset.why_without(lack, right_from), WHAT_LACKS[lack]) for lack in lacks]


def _right_from(settings: Mapping[str, Any]) -> float:
    """Of the settings, or the default; what is no number, the spec's own check refuses."""
    told = settings.get("kto")
    value = told.get("right_from") if isinstance(told, Mapping) else None
    return value if isinstance(value, int | float) else RIGHT_FROM


def _is_learnt_from(heldout: DatasetSnapshot, plan: RunPlan) -> bool:
    """Whether some of its decisions stand in the rows that the run learns from, too."""
    if heldout.is_imported:
        return False
    own = DatasetItem.objects.filter(dataset=heldout).values("decision_id")
    learnt = [dataset.pk for dataset in (plan.dataset, plan.replay) if dataset is not None]
    return DatasetItem.objects.filter(dataset__in=learnt, decision_id__in=own).exists()


@dataclass(frozen=True, slots=True)
class EnginePaths:
    """Where the launcher has put what the engine reads, `base` and `reward_model` as its ModelSource, `judge` as its
    Judge, `encoder` as a folder. Data paths are relative to the run's folder."""

    base: Mapping[str, str]
    train: str
    heldout: str | None = None
    replay: str | None = None
    log: str | None = None
    suites: Mapping[str, str] = field(default_factory=dict)
    text_suites: Mapping[str, str] = field(default_factory=dict)
    reward_model: Mapping[str, str] | None = None
    judge: Mapping[str, Any] | None = None
    encoder: str | None = None


def _paths_to_check(plan: RunPlan) -> EnginePaths:
    return EnginePaths(
        base={"path": "/base"},
        train="data/train.jsonl",
        heldout="data/heldout.jsonl" if plan.heldout is not None else None,
        replay="data/replay.jsonl" if plan.replay is not None else None,
        reward_model={"path": "/reward"} if find_reward_version(plan.settings) is not None else None,
        encoder="/encoder" if find_encoder(plan.settings) is not None else None,
        judge={**judge, **TO_CHECK} if isinstance(judge := plan.settings.get("judge"), Mapping) else None,
    )


def engine_spec(
    spec: Mapping[str, Any], source: RunPlan | TrainingRun, *, run_id: str, paths: EnginePaths
) -> dict[str, Any]:
    """The engine's spec.json: the stored spec with its id and paths filled in."""
    full = {
        **spec,
        "run_id": run_id,
        "base": _base_of(spec, source, paths),
        "data": {
            "train": paths.train,
            "rows": source.dataset.row_kind,
            "heldout": paths.heldout,
            "replay": paths.replay,
            "log": paths.log,
            "suites": dict(paths.suites),
            "text_suites": dict(paths.text_suites),
            "compared": find_compared(source.dataset.agent).model_dump(mode="json"),
        },
    }
    if paths.reward_model is not None:
        full["reward"] = place_reward_model(spec["reward"], paths.reward_model)
    if paths.judge is not None:
        full["judge"] = dict(paths.judge)
    if paths.encoder is not None:
        full["classifier"] = place_encoder(spec["classifier"], paths.encoder)
    if source.heldout is not None:
        full["data"]["heldout_rows"] = source.heldout.row_kind
    if paths.heldout is not None:
        full.setdefault("evaluate", {})
    return full


def _base_of(spec: Mapping[str, Any], source: RunPlan | TrainingRun, paths: EnginePaths) -> dict[str, Any]:
    """What the engine begins with, as its ModelSource."""
    if source.base_model == TINY and METHODS[spec["method"]].makes_model:
        return {"tiny": spec.get("base", {}).get("tiny") or {}}
    if source.base_model == WORDS and METHODS[spec["method"]].makes_classifier:
        return {"words": True}
    return dict(paths.base)


def move_run(run: TrainingRun, new: RunState, **changes: Any) -> TrainingRun:
    """Compare-and-set. Raises InvalidTransition, or RunOver when someone else moved the run first."""
    old = RunState(run.state)
    check_transition(old, new)
    if new in TERMINAL_STATES:
        changes["finished_at"] = timezone.now()
    if new is RunState.RUNNING and run.started_at is None:
        changes["started_at"] = timezone.now()
    with transaction.atomic():
        changed = TrainingRun.objects.filter(id=run.id, state=old).update(state=new.value, **changes)
        if changed != 1:
            raise RunOver(f"The run is no longer {old}.")
        _record(run, new.value, {key: value for key, value in changes.items() if key == "error"})
    run.refresh_from_db()
    return run


def _record(run: TrainingRun, kind: str, details: Mapping[str, Any]) -> None:
    last = RunEvent.objects.filter(run=run, attempt=0).aggregate(last=Max("sequence"))["last"]
    sequence = 0 if last is None else last + 1
    RunEvent.objects.create(run=run, attempt=0, sequence=sequence, kind=kind, details=dict(details), at=timezone.now())


@transaction.atomic
def cancel_run(*, by: Actor, run: TrainingRun) -> TrainingRun:
    """A queued run ends at once; a running one leaves a checkpoint first. Raises RunOver."""
    assert run.job_id is not None
    # First the job, then the run, as the job's own worker locks them: the other order would be a deadlock.
    try:
        request_cancel(job_id=run.job_id)
    except AlreadyFinished as error:
        raise RunOver("The run has already ended.") from error
    locked = TrainingRun.objects.select_for_update().get(id=run.id)
    if locked.state == RunState.RUNNING:
        move_run(locked, RunState.STOPPING)
    record_audit(by=by, action="run.cancelled", target=f"run:{run.id}")
    return locked


def switch_to_run(*, by: Actor, run: TrainingRun) -> ModelVersion:
    """What the run has learnt serves everyone from now on. Raises Conflict of a run that has made none, BackendRefused
    where the model server cannot serve it."""
    version = run.produced_version
    if version is None:
        raise Conflict(f"The run is {run.state} and has made no version.")
    promote_version(by=by, version=version, reason="switched to by hand")
    return version


def end_with_job(job: Any) -> None:
    """The job of a run ended without success: so does the run. Called inside the job's ending transaction."""
    run = TrainingRun.objects.select_for_update().filter(job_id=job.id).first()
    if run is None or run.is_terminal:
        return
    if job.state == "cancelled":
        move_run(run, RunState.CANCELLED, error=job.error)
    else:
        move_run(run, RunState.FAILED, error=job.error)
