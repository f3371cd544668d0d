"""Policies of three kinds that can learn from the same rows, and the runs that train them for a comparison.

A plan of one kind gives the others: they learn from its rows, are measured on its held-out rows and compared with its
base. `training.loops.comparison` compares what the runs have reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from django.db import transaction

from decisions.models import Agent
from models_registry.models import ModelVersion
from training.engine.spec.base_files import is_sentence_encoder
from training.engine.spec.methods import CLASSIFIER, METHODS, RowKind
from training.errors import InvalidRun
from training.models import TrainingRun
from training.runs.base_models import MADE_HERE, WORDS, hub_ids, list_folders
from training.runs.classifiers import find_encoder, find_encoders
from training.runs.services import RunPlan, prepare_run, start_run
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault
from workspaces.models import Workspace
from workspaces.templatetags.show import duration


class PolicyKind(StrEnum):
    """What a policy is made of; from the cheapest decision to the dearest."""

    WORDS = "words"
    ENCODER = "encoder"
    LANGUAGE_MODEL = "language_model"

    @property
    def says(self) -> str:
        """The kind for people."""
        return {
            "words": "classifier of words",
            "encoder": "classifier on a sentence encoder",
            "language_model": "language model",
        }[self.value]


POLICY_KINDS = [(kind.value, kind.value) for kind in PolicyKind]
DECISION_MILLISECONDS = "decision_milliseconds"
"""In a run's metrics: the time that a held-out row took its model, scored in batches."""
COMPARED = (RowKind.LABELLED, RowKind.LOGGED)
"""Rows that every kind of policy learns from."""
SHARED = ("seed", "serving", "evaluate", "max_prompt_tokens", "held_back")
"""Settings of a plan that hold for a policy of another kind as well."""
NO_ENCODER = (
    "No sentence encoder is at hand. With few labels one often decides better than words: on questions of ten domains, "
    "200 labels and 2,000 decisions it was right on 89%, words on 85%. Name a folder, or a hub ID such as "
    "sentence-transformers/all-MiniLM-L6-v2, in RECKONER_BASE_MODELS."
)
NO_LANGUAGE_MODEL = "This agent has no version that is a language model."
OTHER_ROWS = "It does not learn from these rows."


@dataclass(frozen=True, slots=True)
class Candidates:
    """Plans to compare by their kind, and why those of other kinds are `left_out`, a sentence each."""

    plans: Mapping[PolicyKind, RunPlan]
    left_out: Mapping[PolicyKind, str] = field(default_factory=dict)


def kind_of(run: TrainingRun) -> PolicyKind:
    """The kind of policy that a run trains."""
    if not METHODS[run.method].makes_classifier:
        return PolicyKind.LANGUAGE_MODEL
    base = run.base_version
    over = base is not None and (base.is_encoder or (base.is_classifier and base.base_id is not None))
    named = run.base_model not in ("", *MADE_HERE)  # a folder or hub id, which becomes a version when the run begins
    return PolicyKind.ENCODER if over or named or find_encoder(run.spec) is not None else PolicyKind.WORDS


def find_candidates(
    workspace: Workspace, plan: RunPlan, other: RunPlan | None = None, compared_with: ModelVersion | None = None
) -> Candidates:
    """The plan itself and those of the other kinds. `other`: a language model's, where the plan trains a classifier.
    `compared_with`: the version that classifiers are compared with; by default the plan's base."""
    language = other if METHODS[plan.method].makes_classifier else plan
    plans: dict[PolicyKind, RunPlan] = {}
    left_out: dict[PolicyKind, str] = {}
    if plan.dataset.row_kind not in COMPARED or plan.dataset.environment:
        return Candidates(
            {PolicyKind.LANGUAGE_MODEL: plan}, dict.fromkeys((PolicyKind.WORDS, PolicyKind.ENCODER), OTHER_ROWS)
        )
    like = replace(plan, base_version=compared_with, base_model="") if compared_with is not None else plan
    plans[PolicyKind.WORDS] = _plan_words(like)
    if (over := _plan_encoder(workspace, like)) is not None:
        plans[PolicyKind.ENCODER] = over
    else:
        left_out[PolicyKind.ENCODER] = NO_ENCODER
    if language is not None:
        plans[PolicyKind.LANGUAGE_MODEL] = language
    else:
        left_out[PolicyKind.LANGUAGE_MODEL] = NO_LANGUAGE_MODEL
    return Candidates(plans, left_out)


def start_candidates(
    *, by: Actor, agent: Agent, candidates: Candidates, tag: str, seconds: float | None = None
) -> tuple[list[TrainingRun], Mapping[PolicyKind, str]]:
    """Starts a run for each, cheapest first; the runs share `tag`. Returns them, and why others are left out: they
    cannot start, or would take more than `seconds`. Raises InvalidRun with the faults of all, each once, where none can
    start."""
    runs: list[TrainingRun] = []
    left_out = dict(candidates.left_out)
    faults: list[FieldFault] = []
    with transaction.atomic():
        for kind, plan in sorted(candidates.plans.items(), key=lambda item: list(PolicyKind).index(item[0])):
            try:
                estimate = prepare_run(agent, plan).estimate
            except InvalidRun as error:
                faults += [fault for fault in error.faults if fault not in faults]
                reasons = "; ".join(fault.reason for fault in error.faults).rstrip(".")
                left_out[kind] = f"It cannot start: {reasons}."
                continue
            if seconds is not None and estimate is not None and estimate.seconds > seconds:
                left_out[kind] = (
                    f"It would take about {duration(estimate.seconds)}, more than the {duration(seconds)} that the "
                    "comparison may take."
                )
                faults.append(FieldFault("minutes", f"{kind.says}: {left_out[kind]}".rstrip("."), "more time"))
                continue
            runs.append(start_run(by=by, agent=agent, plan=plan, tags=[tag]))
        if not runs:
            raise InvalidRun("No candidate can start.", faults=faults)
    return runs, left_out


def _plan_words(plan: RunPlan) -> RunPlan:
    """Compared with the plan's base, unless that is over an encoder, which its successors keep."""
    base = plan.base_version
    if base is None or base.is_encoder or (base.is_classifier and base.base_id is not None):
        return replace(plan, method=CLASSIFIER, base_version=None, base_model=WORDS, settings=_share_settings(plan))
    return replace(plan, method=CLASSIFIER, settings=_share_settings(plan))


def _plan_encoder(workspace: Workspace, plan: RunPlan) -> RunPlan | None:
    """Over the workspace's newest encoder, or else the first that the instance allows by its folder; None without."""
    base, told = plan.base_version, {**_share_settings(plan), CLASSIFIER: {"words_beside": True}}
    encoder = find_encoders(workspace).first()
    if encoder is not None and (base is not None or plan.base_model == WORDS):
        settings = {**told, CLASSIFIER: {"encoder": str(encoder.id), "words_beside": True}}
        return replace(plan, method=CLASSIFIER, settings=settings)
    if encoder is not None:
        return replace(plan, method=CLASSIFIER, base_version=encoder, base_model="", settings=told)
    named = next(_list_named_encoders(), None)
    if named is None:
        return None
    return replace(plan, method=CLASSIFIER, base_version=None, base_model=named, settings=told)


def _list_named_encoders() -> Iterator[str]:
    """Folders and hub ids that the instance allows; what another hub id holds is not known before it is fetched."""
    yield from (name for name in list_folders() if is_sentence_encoder(Path(name)))
    yield from (name for name in hub_ids() if name.startswith("sentence-transformers/"))


def _share_settings(plan: RunPlan) -> dict[str, Any]:
    return {name: plan.settings[name] for name in SHARED if name in plan.settings}


def find_tagged_runs(workspace: Workspace, tag: str) -> Sequence[TrainingRun]:
    """The runs of one job, oldest first, with what comparisons and results show of them."""
    found = TrainingRun.objects.for_workspace(workspace).filter(tags__contains=[tag])
    related = (
        "agent",
        "dataset",
        "heldout",
        "replay",
        "evaluation",
        "produced_version__registered_model",
        "base_version__registered_model",
        "produced_version__artifact",
        "base_version__artifact",
    )
    return list(found.select_related(*related).order_by("id"))


def order_runs(runs: Sequence[TrainingRun]) -> list[TrainingRun]:
    """The cheapest kind first."""
    return sorted(runs, key=lambda run: list(PolicyKind).index(kind_of(run)))
