"""Tasks of an installed environment as the rows of `manage.py train`, with others to measure on."""

from __future__ import annotations

import msgspec

from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from training.engine.spec.methods import RowKind
from training.local.plans import Rows, UnusableRun


def rows_of_environment(name: str, tasks: int, held_out: int) -> Rows:
    """`tasks` of the training split, and `held_out` of the other one. Raises UnusableRun."""
    try:
        environment = find_environment(name)
    except (UnknownEnvironment, BadEnvironment) as error:
        raise UnusableRun([f"--environment: {error}"]) from error
    if "train" not in environment.splits:
        raise UnusableRun([f"--environment: {name} is only for measuring, and has no tasks to learn from"])
    learnt = [msgspec.to_builtins(task) for task in draw_tasks(environment, tasks, "train")]
    measured = [msgspec.to_builtins(task) for task in draw_tasks(environment, held_out, "heldout")]
    return Rows(RowKind.TASKS, learnt, held_out=measured)
