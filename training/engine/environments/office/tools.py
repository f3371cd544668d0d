"""Every tool of the office in one table: its app, its name, what it does, and its arguments.

`call` runs one in process. `server` gives the same tools an address each, `/APP/NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jsonschema_rs

from training.engine.environments.office import chat, drive, files, records, sheets, tracker
from training.engine.environments.office.tables import ToolError
from training.engine.environments.office.world import World
from training.engine.environments.protocol import Tool


class Answer(NamedTuple):
    """What a call brought. `ok`: it was done; else `text` says why not, and nothing was changed."""

    ok: bool
    text: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class OfficeTool(NamedTuple):
    """`run` takes the world and the arguments by name."""

    app: str
    run: Callable[..., str]
    tool: Tool


def _tool(app: str, run: Callable[..., str], does: str, optional: tuple[str, ...] = (), **arguments: Any) -> OfficeTool:
    """An argument is its description, or a JSON schema."""
    described = {
        name: {"type": "string", "maxLength": 2000, "description": one} if isinstance(one, str) else one
        for name, one in arguments.items()
    }
    required = [name for name in described if name not in optional]
    schema = {"type": "object", "properties": described, "required": required, "additionalProperties": False}
    return OfficeTool(app, run, Tool(run.__name__, does, schema))


FILE, COLUMN, PERSON = "name of the file", "name of a column on the desk", "full name"
ISSUE, TEXT = "title of the issue", "what to say; left out: what lies on the desk"
STATE = {"type": "string", "enum": list(tracker.STATES)}
COUNT = {"type": "integer", "minimum": 1, "maximum": 100, "description": "how many"}
CONTENT = {"type": "string", "maxLength": files.MOST_TEXT, "description": "the whole text"}

TOOLS: Mapping[str, OfficeTool] = {
    one.tool.name: one
    for one in (
        _tool("files", files.list_files, "Names all files."),
        _tool("files", files.read_file, "Reads a text file and lays it on the desk.", file=FILE),
        _tool("files", files.write_file, "Writes a text file.", file=FILE, text=CONTENT),
        _tool("sheets", sheets.open_sheet, "Lays a spreadsheet (.xlsx) on the desk.", file=FILE),
        _tool("sheets", sheets.show_desk, "Reads all cells of what lies on the desk."),
        _tool("sheets", sheets.save_sheet, "Saves what lies on the desk as a spreadsheet (.xlsx).", file=FILE),
        _tool(
            "sheets", sheets.keep_rows, "Keeps the rows on the desk that have a value.", ("column",),
            value="the value", column="only in this column",
        ),
        _tool("sheets", sheets.sort_rows, "Sorts the rows on the desk, largest number first.", column=COLUMN),
        _tool("sheets", sheets.first_rows, "Keeps the first rows on the desk.", count=COUNT),
        _tool("sheets", sheets.list_column, "Keeps one column of what is on the desk.", column=COLUMN),
        _tool("sheets", sheets.sheet_sum, "Adds up a column.", column=COLUMN),
        _tool("sheets", sheets.sheet_mean, "The mean of a column.", column=COLUMN),
        _tool("sheets", sheets.sheet_count, "Counts the rows by the values of a column.", column=COLUMN),
        _tool("sheets", sheets.sheet_max, "The row with the largest number in a column.", column=COLUMN),
        _tool("sheets", sheets.sheet_min, "The row with the smallest number in a column.", column=COLUMN),
        _tool("sheets", sheets.join_sheet, "Adds another spreadsheet's columns by the first column.", file=FILE),
        _tool(
            "sheets", sheets.subtract_columns, "Adds the column `difference`.",
            column="what to subtract from", minus="what to subtract",
        ),
        _tool("database", records.open_table, "Lays a table of the database on the desk.", table="name of the table"),
        _tool("database", records.query_db, "Runs one SQL statement (SQLite) that reads or changes rows.", sql="SQL"),
        _tool("database", records.add_rows, "Adds the rows on the desk to a table.", table="name of the table"),
        _tool("chat", chat.list_people, "Names all colleagues."),
        _tool(
            "chat", chat.post_message, "Sends a message to a person or a channel.", ("text",),
            to="full name, or name of a channel", text=TEXT,
        ),
        _tool(
            "chat", chat.ask_person, "Asks a colleague and lays the answer on the desk.", ("question",),
            person=PERSON, question="what to ask",
        ),
        _tool("chat", chat.read_channel, "Lays a channel's last message on the desk.", channel="name of the channel"),
        _tool("chat", chat.add_member, "Adds a person to a channel.", channel="name of the channel", person=PERSON),
        _tool("tracker", tracker.list_issues, "Lays a project's issues on the desk.", project="name of the project"),
        _tool("tracker", tracker.find_issue, "Lays an issue on the desk: state and assignee.", issue=ISSUE),
        _tool("tracker", tracker.create_issue, "Opens an issue.", issue=ISSUE, project="name of the project"),
        _tool("tracker", tracker.assign_issue, "Gives an issue to a person.", issue=ISSUE, person=PERSON),
        _tool("tracker", tracker.set_issue_state, "Closes or reopens an issue.", issue=ISSUE, state=STATE),
        _tool("tracker", tracker.label_issue, "Labels an issue.", issue=ISSUE, label="the label"),
        _tool("tracker", tracker.comment_issue, "Comments on an issue.", ("text",), issue=ISSUE, text=TEXT),
        _tool("drive", drive.share_file, "Lets a person read a file.", file=FILE, person=PERSON),
        _tool("drive", drive.move_file, "Moves a file to a folder.", file=FILE, folder="name of the folder"),
        _tool("drive", drive.list_shares, "Names who may read a file.", file=FILE),
    )
}  # fmt: skip


def call(world: World, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Runs a tool. What it cannot do is an answer that is not ok; nothing is raised for what a caller got wrong."""
    if (why := find_fault(name, arguments)) is not None:
        return Answer(False, why)
    try:
        return Answer(True, TOOLS[name].run(world, **arguments))
    except ToolError as error:
        return Answer(False, str(error))


def find_fault(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Why it is no call of a tool; None where it is one."""
    if name not in TOOLS:
        return f"there is no tool {name!r}; there is {', '.join(sorted(TOOLS))}"
    error = next(_validator(name).iter_errors(dict(arguments)), None)
    if error is None:
        return None
    where = ".".join(map(str, error.instance_path))
    return f"{where}: {error.message}" if where else str(error.message)


@cache
def _validator(name: str) -> Any:
    return jsonschema_rs.Draft202012Validator(dict(TOOLS[name].tool.parameters), offline=True)
