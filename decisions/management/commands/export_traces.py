"""`manage.py export_traces FOLDER --agent isaa`: traces as JSON files in folders by date, as ToolBox keeps them."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils.dateparse import parse_date

from decisions.exports.trace_files import CHECKPOINTS, TraceChoice, write_traces
from decisions.models import Agent
from workspaces.commands import UncheckedCommand

EXIT_NONE = 1


def day(text: str) -> dt.datetime:
    """The beginning of a day in UTC."""
    try:
        found = parse_date(text)
    except ValueError:
        found = None
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no date; expected: such as 2026-11-01")
    return dt.datetime(found.year, found.month, found.day, tzinfo=dt.UTC)


class Command(UncheckedCommand):
    help = (
        "Writes an agent's traces into FOLDER/YYYY-MM-DD/TRACE.json in ToolBox's format, and the tasks of its "
        f"checkpoints into FOLDER/{CHECKPOINTS}/. Files of the same name are replaced, others stay. "
        "Exit codes: 0 written, 1 there was nothing to write, 2 the input is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="made where it does not exist")
        parser.add_argument("--agent", required=True, help="slug")
        parser.add_argument("--since", type=day, metavar="DATE", help="only traces of this day (UTC) and later")
        parser.add_argument("--until", type=day, metavar="DATE", help="only traces before this day (UTC)")
        parser.add_argument("--labelled", action="store_true", help="only traces with a label")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        agent = Agent.objects.for_workspace(workspace).filter(slug=options["agent"]).first()
        if agent is None:
            self.refuse(f"There is no agent {options['agent']!r} in {workspace.slug}.")
        choice = TraceChoice(since=options["since"], until=options["until"], labelled=options["labelled"])
        folder: Path = options["folder"]
        traces, checkpoints, days = 0, 0, set()
        try:
            for file in write_traces(agent, choice):
                path = folder / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.body)
                if path.parent.name == CHECKPOINTS:
                    checkpoints += 1
                else:
                    traces += 1
                    days.add(path.parent.name)
        except OSError as error:
            self.refuse(f"{error.filename or folder}: {error.strerror or error}")
        if options["json"]:
            self.stdout.write(json.dumps({"traces": traces, "days": sorted(days), "checkpoints": checkpoints}))
        else:
            more = f", and {checkpoints} checkpoint of tasks" if checkpoints else ""
            self.stdout.write(f"{traces:,} traces of {len(days):,} days are in {folder}{more}")
        if not traces and not checkpoints:
            sys.exit(EXIT_NONE)
