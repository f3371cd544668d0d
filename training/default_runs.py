"""Starts a run with default values, changed where somebody says so. `manage.py runs start` calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decisions.models import Agent
from training.defaults import find_defaults
from training.errors import InvalidRun
from training.models import TrainingRun
from training.runs import start_run
from workspaces.actors import Actor
from workspaces.errors import FieldFault


def start_default_run(*, by: Actor, agent: Agent, settings: Mapping[str, Any]) -> TrainingRun:
    """On the agent's newest rows, by the method of choice for them. `settings` are fields of the engine's spec over the
    defaults; those that are objects are merged field by field. Raises InvalidRun."""
    plan = find_defaults(by.workspace, [agent])[agent.pk].plan()
    if plan is None:
        fault = FieldFault("dataset", f"{agent.name} has neither labelled rows nor logged rows and a version", "either")
        raise InvalidRun("There is nothing to train on yet.", faults=[fault])
    return start_run(by=by, agent=agent, plan=replace(plan, settings=merge_settings(plan.settings, settings)))


def merge_settings(defaults: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Two levels deep, as the spec is."""
    merged = dict(defaults)
    for name, value in changes.items():
        below = merged.get(name)
        merged[name] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
