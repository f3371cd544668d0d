"""What a pipeline is asked for, and what keeps it from starting: every reason at once, before anything is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.utils import timezone

from decisions.agents.current import find_current_version
from decisions.models import Agent, AgentVersion
from decisions.rewards.calculate import count_pending
from decisions.rewards.specs import current_reward_spec
from models_registry.errors import UnknownVersion
from models_registry.models import ModelVersion
from models_registry.versions.references import find_version, is_reference
from training.datasets.freezing import REWARDED, find_faults
from training.datasets.label_preview import preview_labels
from training.datasets.preview import Preview, preview_datasets
from training.engine.spec.methods import FEWEST_REWARDED, TRAINING, WHAT_LACKS, Need, RowKind
from training.errors import InvalidPipeline, InvalidRun
from training.exports.ollama import LOCAL, named_host
from training.loops.pipeline.to_ollama import choose_quantisation, find_target_faults
from training.models import LEDGER_KINDS, DatasetKind, DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.selection import ALL, Filters
from training.rows.shapes_of.shapes import shape_of
from training.runs.base_models import TINY, is_allowed_base
from training.runs.defaults.starting import merge_settings
from training.runs.defaults.values import Defaults, choose_settings, find_defaults
from training.runs.services import RunPlan, check_plan
from workspaces.errors import FieldFault

EXPERIMENT, CHAMPION = "experiment", "champion"
DEPLOYMENTS = (EXPERIMENT, CHAMPION)
HELD_OUT_SHARE = 0.2
OLLAMA = ("deploy_ollama", "quantisation", "ollama_host")
FIELD_OF = {"base_version": "model", "base_model": "model", "memory": "model", "disk": "model", "dataset": "rows"}
"""Fields of a pipeline's plan, by what the faults of its run's plan call them."""
TEXT_TOKENS, TEMPLATE_TOKENS = 128, 64
"""Of completions of a new tiny model, as `manage.py train` has it, and room for the chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """`filters`: with decisions that nobody judged for a method that learns from them, unless a reward is asked for.
    `model`: a version (filer:3), a hub id, a folder, or `tiny` for pretrain; "" for the champion, or the instance's
    own base where there is no version. `rows`: a kind of rows that the method learns from; "" for the one that fits the
    agent's actions. `settings`: fields of the engine's spec over the defaults. `held_out`: the share in [0, 0.5] that
    the run does not learn from. `deploy`: what may be done with the version where the evidence allows it.
    `deploy_ollama`: at the end its GGUF becomes a model of the Ollama server `ollama_host` ("": OLLAMA_HOST, else the
    local one), in this `quantisation` ("": the one for this machine's memory).
    """

    method: str
    model: str = ""
    rows: str = ""
    filters: Filters = ALL
    only_new: bool = False
    held_out: float = HELD_OUT_SHARE
    settings: Mapping[str, Any] = field(default_factory=dict)
    deploy: str = ""
    deploy_ollama: bool = False
    quantisation: str = ""
    ollama_host: str = ""

    def as_plain(self) -> dict[str, Any]:
        """As JSON, without Ollama's part where it is not asked for."""
        left_out = {"filters"} if self.deploy_ollama else {"filters", *OLLAMA}
        plain = {name: value for name, value in asdict(self).items() if name not in left_out}
        return plain | {"filters": self.filters.as_plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        told = {one.name: plain[one.name] for one in fields(cls) if one.name in plain}
        return cls(**{**told, "filters": Filters.from_plain(plain.get("filters", {}))})


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the plan comes to for this agent: what to freeze, and what to train with it. `unused_at` is the moment of
    the question where only new decisions are asked for."""

    plan: PipelinePlan
    kind: DatasetKind
    base_version: ModelVersion | None
    base_model: str
    root: str
    heldout: DatasetSnapshot | None
    replay: DatasetSnapshot | None
    unused_at: dt.datetime | None

    @property
    def held_out(self) -> float | None:
        """The share that becomes a dataset of its own. Of logged rows the run itself holds it back, for the gate by the
        log; pairs cannot be measured on."""
        apart = self.kind in (DatasetKind.LABELLED, DatasetKind.TEXT)
        return (self.plan.held_out or None) if apart else None

    def run_plan(self, dataset: DatasetSnapshot, held_out: DatasetSnapshot | None = None) -> RunPlan:
        """The run on this dataset, measured on the rows that were held out of it where there are some."""
        rows = dataset.rows + (self.replay.rows if self.replay is not None else 0)
        version = find_current_version(dataset.agent)
        told = dict(choose_settings(self.plan.method, root=self.root, rows=rows, agent_version=version))
        if self.kind is DatasetKind.LOGGED:
            told["held_back"] = self.plan.held_out
        if self.kind is DatasetKind.TEXT and self.base_model == TINY:  # it gets as many positions as it needs
            told["max_completion_tokens"] = TEXT_TOKENS
            told["base"] = {"tiny": {"max_positions": told["max_prompt_tokens"] + TEXT_TOKENS + TEMPLATE_TOKENS}}
        return RunPlan(
            method=self.plan.method,
            dataset=dataset,
            base_version=self.base_version,
            base_model=self.base_model,
            heldout=held_out or self.heldout,
            replay=self.replay,
            settings=merge_settings(told, self.plan.settings),
        )


def prepare_pipeline(agent: Agent, plan: PipelinePlan) -> Prepared:
    """Raises InvalidPipeline with every reason why it cannot start. What only the frozen rows can say, such as that all
    were right, the run's own check says before dataset and run are made."""
    faults: list[FieldFault] = []
    if plan.deploy_ollama:
        plan = replace(
            plan,
            quantisation=plan.quantisation or choose_quantisation(),
            ollama_host=plan.ollama_host or named_host() or LOCAL,
        )
    elif plan.quantisation or plan.ollama_host:
        field = "quantisation" if plan.quantisation else "ollama_host"
        faults.append(FieldFault(field, "has no effect without deploy_ollama", "deploy_ollama too, or neither"))
    if plan.deploy and plan.deploy not in DEPLOYMENTS:
        faults.append(FieldFault("deploy", f"{plan.deploy!r} is unknown", " or ".join(DEPLOYMENTS)))
    if plan.method not in TRAINING:
        faults.append(FieldFault("method", f"{plan.method!r} is unknown", ", ".join(TRAINING)))
    elif TRAINING[plan.method].makes_reward_model:
        faults.append(FieldFault("method", f"{plan.method} does not make a policy to deploy", "a run of its own"))
    version = find_current_version(agent)
    if version is None:
        faults.append(FieldFault("agent", f"{agent.slug} has no version", "an agent with a prompt"))
    defaults = find_defaults(agent.workspace, [agent])[agent.id]
    base_version, base_model = _find_base(agent, plan, defaults, faults)
    if plan.deploy_ollama:
        faults += find_target_faults(base_version, quantisation=plan.quantisation, host=plan.ollama_host)
    kind = _find_kind(plan, version, faults)
    if kind is not None:
        if kind is DatasetKind.LOGGED and TRAINING[plan.method].learns_unjudged and plan.filters.min_reward is None:
            plan = replace(plan, filters=replace(plan.filters, unjudged=True))
        held_out = plan.held_out or None
        faults += find_faults(kind, plan.filters, held_out=held_out, suggestions=False)
    if kind is None or version is None:
        raise InvalidPipeline("The pipeline cannot start.", faults=faults)
    root = base_model or (base_version.base_model if base_version is not None else "") or defaults.root
    replays = TRAINING[plan.method].replays(RowKind(kind))
    prepared = Prepared(
        plan=plan,
        kind=kind,
        base_version=base_version,
        base_model=base_model,
        root=root,
        heldout=defaults.heldout,
        replay=defaults.replay if replays else None,
        unused_at=timezone.now() if plan.only_new else None,
    )
    if not any(fault.field in ("since", "until", "policy", "unit", "min_reward", "unjudged") for fault in faults):
        faults += _find_row_faults(agent, prepared)
    if base_version is not None or base_model:
        try:
            check_run(agent, prepared)
        except InvalidPipeline as error:
            faults += error.faults
    if faults:
        raise InvalidPipeline("The pipeline cannot start.", faults=faults)
    return prepared


def check_run(agent: Agent, prepared: Prepared) -> None:
    """Whether its run could start on rows that are yet to be made. Raises InvalidPipeline."""
    to_come = DatasetSnapshot(workspace_id=agent.workspace_id, agent=agent, kind=prepared.kind, rows=0)
    try:
        check_plan(agent, prepared.run_plan(to_come))
    except InvalidRun as error:
        raise InvalidPipeline("The pipeline cannot start.", faults=error.faults) from error


def _find_base(
    agent: Agent, plan: PipelinePlan, defaults: Defaults, faults: list[FieldFault]
) -> tuple[ModelVersion | None, str]:
    """The version or the model to begin with; a fault where there is none."""
    if not plan.model:
        if plan.method in TRAINING and TRAINING[plan.method].makes_model:
            return None, defaults.root if defaults.root and is_allowed_base(defaults.root) else TINY
        if defaults.base is not None:
            return defaults.base, ""
        if settings.BASE_MODEL != TINY:
            return None, settings.BASE_MODEL
        reason = f"{agent.slug} has no version yet, and the instance's own base is a new tiny model"
        faults.append(FieldFault("model", reason, "a hub id or a folder, or the method pretrain, which makes a model"))
        return None, ""
    if is_reference(plan.model):
        try:
            return find_version(agent.workspace, plan.model, field="model"), ""
        except UnknownVersion as error:
            faults += error.faults
            return None, ""
    return None, absolute_base(plan.model)


def absolute_base(model: str) -> str:
    """A folder by its whole path, which means the same to the worker; other names as they are."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model


def _find_kind(plan: PipelinePlan, version: AgentVersion | None, faults: list[FieldFault]) -> DatasetKind | None:
    """The kind of rows that is asked for, or the first that the method takes: of the agent's own actions, of
    corrections, of labels."""
    method = TRAINING.get(plan.method)
    if method is None or version is None:
        return None
    takes = " or ".join(method.learns_from)
    if plan.rows:
        if plan.rows not in method.learns_from:
            faults.append(FieldFault("rows", f"{plan.method} cannot learn from {plan.rows} rows", takes))
            return None
        if plan.rows not in LEDGER_KINDS:
            faults.append(FieldFault("rows", f"{plan.rows} are not read from decisions", ", ".join(LEDGER_KINDS)))
            return None
        return DatasetKind(plan.rows)
    wanted = (shape_of(version).kind, DatasetKind.PREFERENCES, DatasetKind.LABELLED)
    found = next((kind for kind in wanted if RowKind(kind) in method.learns_from), None)
    if found is None:
        reason = f"{plan.method} cannot learn from {wanted[0]} rows, which this agent makes"
        faults.append(FieldFault("method", reason, takes))
    return found


def _find_row_faults(agent: Agent, prepared: Prepared) -> list[FieldFault]:
    """Why the agent's decisions make no rows, or none that the method takes, as far as the newest ones tell."""
    preview = _preview(agent, prepared, prepared.plan.filters)
    if not preview.rows and not preview.look_ended:
        if prepared.kind in REWARDED and count_pending(current_reward_spec(agent)):
            return []  # its first stage calculates them
        why = "; ".join(f"{count:,} {words}" for _, count, words in preview.told_left_out)
        reason = f"no decision makes a row: {why}" if why else "it has no decisions yet"
        return [FieldFault("agent", reason, "decisions with feedback")]
    needs = TRAINING[prepared.plan.method].needs(RowKind(prepared.kind))
    wanted = needs & {Need.PROPENSITY, Need.ANY_PROPENSITY, Need.PROPENSITY_OR_MODEL}
    if not wanted or prepared.plan.filters.with_propensity:
        return []
    with_one = _preview(agent, prepared, replace(prepared.plan.filters, with_propensity=True))
    without = preview.rows - with_one.rows
    reason = f"{without:,} of its decisions have no propensity"
    if Need.PROPENSITY_OR_MODEL not in wanted:
        right = f"{WHAT_LACKS[Need.PROPENSITY]}: leave the others out"
    elif preview.look_ended or preview.rows >= FEWEST_REWARDED:
        return []  # a reward model may pay; the run says whether it is any good
    else:
        right, reason = WHAT_LACKS[Need.PROPENSITY_OR_MODEL], f"{reason}, and only {preview.rows} have a reward"
    return [FieldFault("with_propensity", reason, right)] if without else []


def _preview(agent: Agent, prepared: Prepared, filters: Filters) -> Preview:
    if prepared.kind in REWARDED:
        previews = preview_datasets([agent], kind=prepared.kind, unused_at=prepared.unused_at, filters=filters)
        return previews[agent.id]
    return preview_labels(agent, LabelQuestion(prepared.kind, None, prepared.unused_at, None, filters))
