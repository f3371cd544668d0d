"""A worker who knows the plan, and finds the way back to it after wrong steps. For demonstrations and tests."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from training.engine.environments.office.calls import as_tool_call
from training.engine.environments.office.graders import Goal, find_reached, grade_world
from training.engine.environments.office.tools import call
from training.engine.environments.office.world import World


def find_next(world: World, plan: Sequence[str], goals: Sequence[Goal]) -> str | None:
    """The first step of the shortest end of the plan which, from here, reaches every goal; None where all are reached.

    It tries each end on a copy of the office. Where none helps, the plan's first step. Help on the way is no step to
    leave out: what a step names may only be found there.
    """
    if all(point.reached for point in grade_world(world, goals)):
        return None
    return next((plan[at] for at in range(len(plan) - 1, 0, -1) if _leads_there(world, plan[at:], goals)), plan[0])


def _leads_there(world: World, steps: Sequence[str], goals: Sequence[Goal]) -> bool:
    tried = copy.deepcopy(world)
    for step in steps:
        if not call(tried, *as_tool_call(tried, step)).ok:
            return False
    return all(find_reached(tried, goals))
