"""Runs with default values, changed where somebody says so. `manage.py runs` and the form that starts a run call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from decisions.models import Agent
from training.errors import InvalidRun
from training.models import DatasetSnapshot, TrainingRun
from training.runs.defaults.presets import PRESETS
from training.runs.defaults.values import find_defaults
from training.runs.services import RunPlan, start_run
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault

VERDICTS = "People's verdicts on decisions can teach a first model: manage.py runs train, or POST /api/v1/runs/train."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody says of a run: the `dataset` instead of the agent's newest rows, a `preset`
    (training.runs.defaults.presets), and `settings`, fields of the engine's spec over the defaults; those that are
    objects are merged field by field."""

    dataset: DatasetSnapshot | None = None
    preset: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def start_default_run(*, by: Actor, agent: Agent, wanted: Wanted) -> TrainingRun:
    """By the preset's method, or the one of choice for the rows. Raises InvalidRun."""
    return start_run(by=by, agent=agent, plan=find_default_plan(by=by, agent=agent, wanted=wanted))


def find_default_plan(*, by: Actor, agent: Agent, wanted: Wanted) -> RunPlan:
    """Raises InvalidRun where there is nothing to train on."""
    dataset = wanted.dataset
    if dataset is None and wanted.preset:
        kind = PRESETS[wanted.preset].rows
        dataset = agent.datasets.filter(kind=kind, marked_at=None).select_related("agent").order_by("-id").first()
        if dataset is None:
            fault = FieldFault("dataset", f"{agent.name} has no dataset of {kind} rows", "one of those")
            raise InvalidRun("There is nothing to train on yet.", faults=[fault])
    plan = find_defaults(by.workspace, [agent])[agent.pk].plan(dataset)
    if plan is None:
        fault = FieldFault("dataset", f"{agent.name} has neither labelled rows nor logged rows and a version", "either")
        raise InvalidRun(f"There is nothing to train on yet. {VERDICTS}", faults=[fault])
    plan = apply_preset(plan, wanted.preset) if wanted.preset else plan
    return replace(plan, settings=merge_settings(plan.settings, wanted.settings))


def apply_preset(plan: RunPlan, name: str) -> RunPlan:
    """The same rows and base by the preset's method and settings; how the policy will act stays the agent's."""
    preset = PRESETS[name]
    kept = {name: plan.settings[name] for name in ("serving",) if name in plan.settings}
    return replace(plan, method=preset.method, replay=None, settings={**preset.settings, **kept})


def merge_settings(defaults: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Two levels deep, as the spec is."""
    merged = dict(defaults)
    for name, value in changes.items():
        below = merged.get(name)
        merged[name] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
