"""Graders: each looks at the office as it was left behind, and at nothing else; how it came about does not matter.

A goal is JSON: `kind` picks the grader, `name` and `points` are the checkpoint's, the rest is the grader's arguments. A
grader that raises is an EnvironmentFault, never a checkpoint that was not reached.

Goals of kind `desk` are help on the way: a finding that lies on the desk. They count as reached as well when all the
other goals are, because whoever delivers the right thing needs no desk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training.engine.environments.office import database
from training.engine.environments.office.spreadsheets import read_workbook
from training.engine.environments.office.tables import Table
from training.engine.environments.office.world import ME, World
from training.engine.environments.protocol import Checkpoint, EnvironmentFault

Goal = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]


def on_desk(world: World, rows: Rows) -> bool:
    """One of the findings has exactly these rows."""
    return any(_same(found, rows) for found in world.desk)


def asked(world: World, person: str) -> bool:
    """They have answered the worker."""
    return any(message.sender == person and message.to == ME for message in world.messages)


def saved(world: World, file: str, rows: Rows) -> bool:
    """The workbook has exactly these rows."""
    return file in world.files and _same(read_workbook(world.files[file]), rows)


def told(world: World, to: str, holds: Sequence[Any], lacks: Sequence[Any] = ()) -> bool:
    """The worker's last message there, questions aside, holds all of these and none of those."""
    said = [message.text for message in world.messages if message.to == to and not message.question]
    return bool(said) and _holds(said[-1], holds, lacks)


def member(world: World, channel: str, person: str) -> bool:
    return person in world.channels[channel]


def shared(world: World, file: str, person: str) -> bool:
    return (file, person) in world.shares


def issue(world: World, title: str, **wanted: Any) -> bool:
    """It is there and has these: project, state, assignee."""
    found = world.issues.get(title)
    return found is not None and all(getattr(found, name) == value for name, value in wanted.items())


def labelled(world: World, title: str, label: str) -> bool:
    found = world.issues.get(title)
    return found is not None and label in found.labels


def commented(world: World, title: str, holds: Sequence[Any], lacks: Sequence[Any] = ()) -> bool:
    """Its last comment holds all of these and none of those."""
    found = world.issues.get(title)
    return found is not None and bool(found.comments) and _holds(found.comments[-1], holds, lacks)


def recorded(world: World, table: str, row: Sequence[Any]) -> bool:
    """The database's table has the row."""
    return tuple(row) in database.read_table(world.database, table).rows


GRADERS: Mapping[str, Callable[..., bool]] = {
    "desk": on_desk,
    "asked": asked,
    "saved": saved,
    "told": told,
    "member": member,
    "shared": shared,
    "issue": issue,
    "labelled": labelled,
    "commented": commented,
    "recorded": recorded,
}


def grade_world(world: World, goals: Sequence[Goal]) -> list[Checkpoint]:
    """A checkpoint for each goal, in order. Raises EnvironmentFault where a grader fails."""
    reached = find_reached(world, goals)
    delivered = [is_reached for goal, is_reached in zip(goals, reached, strict=True) if goal["kind"] != "desk"]
    all_delivered = bool(delivered) and all(delivered)
    return [
        Checkpoint(goal["name"], goal["points"], is_reached or (goal["kind"] == "desk" and all_delivered))
        for goal, is_reached in zip(goals, reached, strict=True)
    ]


def find_reached(world: World, goals: Sequence[Goal]) -> list[bool]:
    """What each goal's grader says, in order: help on the way only where it was taken. Raises EnvironmentFault."""
    return [_is_reached(world, goal) for goal in goals]


def _is_reached(world: World, goal: Goal) -> bool:
    arguments = {name: value for name, value in goal.items() if name not in ("kind", "name", "points")}
    try:
        return GRADERS[goal["kind"]](world, **arguments)
    except Exception as error:  # whatever went wrong, it says nothing about the agent
        raise EnvironmentFault(f"grader of {goal.get('name')!r}: {type(error).__name__}: {error}") from error


def _same(found: Table, rows: Rows) -> bool:
    return [list(row) for row in found.rows] == [list(row) for row in rows]


def _holds(text: str, holds: Sequence[Any], lacks: Sequence[Any]) -> bool:
    return all(_names(text, one) for one in holds) and not any(_names(text, one) for one in lacks)


def _names(text: str, value: Any) -> bool:
    """As a word of its own, so that 12 is not found in 120."""
    return re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\w|\.\d)", text) is not None
