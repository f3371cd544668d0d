"""The judge of a run on tasks: server and calibration, checked when the run is made and when its engine starts.

`training.runs.services` and `training.supervision.job` call it. What the engine gets is in docs/engine.md, `judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from decisions.errors import JudgeNotCalibrated
from decisions.judges.calibrating import require_calibrated
from decisions.judges.ledger import JudgeName
from decisions.models import Agent
from models_registry.backends.endpoint import endpoint_of
from models_registry.backends.outbound import find_url_fault
from models_registry.errors import BackendUnavailable
from models_registry.models import Backend
from training.models import DatasetSnapshot
from training.runs.on_tasks import find_class
from workspaces.errors import FieldFault

FILLED_IN = ("url", "key_variable", "timeout_seconds", "calibration")
TO_CHECK: Mapping[str, Any] = {"url": "http://judge/v1"}
"""Stands for what is filled in later, while a plan is checked."""


def find_judge_faults(agent: Agent, dataset: DatasetSnapshot, settings: Mapping[str, Any]) -> list[FieldFault]:
    """Why the run cannot have this judge; empty without one. The engine's spec checks the types, and that its rows are
    tasks."""
    judge = settings.get("judge")
    return list(_find_faults(agent, dataset, judge)) if isinstance(judge, Mapping) else []


def _find_faults(agent: Agent, dataset: DatasetSnapshot, judge: Mapping[str, Any]) -> Iterator[FieldFault]:
    for name in FILLED_IN:
        if judge.get(name):
            yield FieldFault(f"settings.judge.{name}", "is filled in by the run", "backend: a server of this workspace")
    environment = find_class(dataset.environment) if dataset.is_of_tasks else None
    if environment is not None and not environment.judged:
        reason = f"{dataset.environment} has no criterion that a judge scores"
        yield FieldFault("settings.judge", reason, "no judge, or tasks of writing or business")
    try:
        _find_server(agent, judge)
    except BackendUnavailable as error:
        yield FieldFault("settings.judge.backend", error.message, "an enabled server of this workspace, by its name")
    try:
        require_calibrated(agent, JudgeName(str(judge.get("metric", ""))))
    except JudgeNotCalibrated as error:
        how = f"label decisions that it scored in random order, then manage.py calibrate_judge {agent.slug}"
        yield FieldFault("settings.judge.metric", error.message, f"a calibrated judge of this agent: {how}")


def place_judge(agent: Agent, judge: Mapping[str, Any]) -> dict[str, Any]:
    """The judge as the engine asks it. Raises JudgeNotCalibrated, also where it has drifted since the run was made, and
    BackendUnavailable where its server is no more, or lacks its key."""
    found = require_calibrated(agent, JudgeName(judge["metric"]))
    server = _find_server(agent, judge)
    endpoint = endpoint_of(server)
    _ = endpoint.secret  # raises without the variable
    return {
        **judge,
        "url": endpoint.url,
        "key_variable": endpoint.key_variable,
        "timeout_seconds": endpoint.timeout_seconds,
        "calibration": str(found.id),
    }


def _find_server(agent: Agent, judge: Mapping[str, Any]) -> Backend:
    """Raises BackendUnavailable."""
    name = str(judge.get("backend", ""))
    found: Backend | None = Backend.objects.for_workspace(agent.workspace).filter(name=name, enabled=True).first()
    if found is None:
        raise BackendUnavailable(f"There is no enabled server {name[:63]!r}.")
    if (fault := find_url_fault(found.url)) is not None:
        raise BackendUnavailable(f"{fault.reason}; {fault.expected}.")
    return found
