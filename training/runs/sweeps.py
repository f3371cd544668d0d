"""Several runs of one plan over a grid of settings, started together or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from decisions.models import Agent
from training.errors import InvalidRun
from training.models import TrainingRun
from training.runs.services import RunPlan, start_run
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault
from workspaces.storage.ids import uuid7

MOST_RUNS = 24


def start_sweep(
    *, by: Actor, agent: Agent, plan: RunPlan, grid: Mapping[str, Sequence[Any]]
) -> tuple[str, list[TrainingRun]]:
    """A run for each combination; the tag that they share, and the runs in the grid's order.

    `grid` names settings of the engine's spec by their path ("optimiser.learning_rate") with the values to try. Raises
    InvalidRun with the faults of every combination; nothing is queued then.
    """
    points = _read_grid(grid)
    tag = f"sweep-{str(uuid7())[-8:]}"
    faults: list[FieldFault] = []
    runs: list[TrainingRun] = []
    with transaction.atomic():
        for point in points:
            says = ", ".join(f"{path} {value}" for path, value in point.items())
            try:
                changed = replace(plan, settings=_with_values(plan.settings, point))
                runs.append(start_run(by=by, agent=agent, plan=changed, tags=[tag], notes=says))
            except InvalidRun as error:
                faults += [FieldFault(one.field, f"with {says}: {one.reason}", one.expected) for one in error.faults]
        if faults:
            raise InvalidRun("The sweep cannot start, because some of its runs cannot.", faults=faults)
    return tag, runs


def _read_grid(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination. Raises InvalidRun."""
    count = 1
    for path, values in grid.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise _refuse(f"{path} has no list of values", "at least one value for each setting")
        count *= len(values)
    if not grid or count > MOST_RUNS:
        raise _refuse(f"{count if grid else 0} runs", f"1 to {MOST_RUNS} runs")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _refuse(reason: str, expected: str) -> InvalidRun:
    return InvalidRun("The sweep cannot start.", faults=[FieldFault("grid", reason, expected)])


def _with_values(settings: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(settings)
    for path, value in point.items():
        *above, last = path.split(".")
        place = changed
        for part in above:
            inner = place.get(part)
            place[part] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[part]
        place[last] = value
    return changed
