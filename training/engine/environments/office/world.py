"""The state of an office: plain data, so that copies are snapshots and equal offices are ==.

Nothing outlives an episode: every one sets up its own from the facts of its task.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from training.engine.environments.office import database
from training.engine.environments.office.spreadsheets import read_workbook, write_workbook
from training.engine.environments.office.tables import Table, ToolError, table

ME = "me"
"""The worker, in chats."""


class Message(NamedTuple):
    """A line of a chat. `to`: a person or a channel. `question`: it asks for something."""

    sender: str
    to: str
    text: str
    question: bool = False


@dataclass(slots=True)
class Issue:
    """One of the tracker's. `assignee`: a person, or empty."""

    title: str
    project: str
    state: str = "open"
    assignee: str = ""
    labels: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class World:
    """`locked`: what the worker has no access to, and people who are away. `files`: name → bytes. `channels`: name →
    members. `replies`: what a person says when asked. `shares`: (file, person). `folders`: file → folder. `desk`: what
    tools found, the latest last. `issue`, `file`: what the worker looked at last."""

    people: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    database: bytes = b""
    channels: dict[str, list[str]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)
    issues: dict[str, Issue] = field(default_factory=dict)
    projects: list[str] = field(default_factory=list)
    shares: list[tuple[str, str]] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    desk: list[Table] = field(default_factory=list)
    issue: str = ""
    file: str = ""

    @property
    def on_desk(self) -> Table:
        """What was found last. Raises ToolError where nothing was."""
        if not self.desk:
            raise ToolError("nothing on the desk")
        return self.desk[-1]

    def lay(self, found: Table) -> Table:
        self.desk.append(found)
        return found

    def person(self, name: str) -> str:
        """The name, of a colleague who is there. Raises ToolError for others."""
        if name not in self.people:
            raise ToolError(f"no person {name}")
        if name in self.locked:
            raise ToolError(f"{name} is away")
        return name

    def open_to_me(self, name: str) -> str:
        """The name, of something that the worker may use. Raises ToolError where it is locked."""
        if name in self.locked:
            raise ToolError(f"no access to {name}")
        return name

    def as_json(self) -> dict[str, Any]:
        """For people and logs. Workbooks as their cells, other bytes as text or base64."""
        state = {
            "people": self.people,
            "locked": self.locked,
            "files": {name: _readable(name, content) for name, content in self.files.items()},
            "tables": {name: _rows(database.read_table(self.database, name)) for name in self.tables()},
            "channels": self.channels,
            "messages": [message._asdict() for message in self.messages],
            "issues": [
                {name: getattr(issue, name) for name in Issue.__dataclass_fields__} for issue in self.issues.values()
            ],
            "projects": self.projects,
            "shares": [list(share) for share in self.shares],
            "folders": self.folders,
            "desk": [_rows(found) for found in self.desk],
        }
        return copy.deepcopy(state)

    def tables(self) -> list[str]:
        return list(database.tables_of(self.database)) if self.database else []


def set_up_world(facts: Mapping[str, Any]) -> World:
    """An office as a task's facts describe it; see `templates.drawing`. Raises KeyError, TypeError or ValueError for
    facts that describe none."""
    files = {}
    for name, content in facts["files"].items():
        files[name] = content.encode() if isinstance(content, str) else write_workbook(_as_table(content))
    return World(
        people=list(facts["people"]),
        locked=list(facts["locked"]),
        files=files,
        database=database.make_database({name: _as_table(one) for name, one in facts["tables"].items()}),
        channels={name: list(members) for name, members in facts["channels"].items()},
        replies=dict(facts["replies"]),
        issues={one["title"]: Issue(**one) for one in facts["issues"]},
        projects=list(facts["projects"]),
    )


def _as_table(content: Mapping[str, Any]) -> Table:
    return table(content["columns"], content["rows"])


def _rows(found: Table) -> dict[str, Any]:
    return {"columns": list(found.columns), "rows": [list(row) for row in found.rows]}


def _readable(name: str, content: bytes) -> Any:
    if name.endswith(".xlsx"):
        return _rows(read_workbook(content))
    try:
        return content.decode()
    except UnicodeDecodeError:
        return base64.b64encode(content).decode()
