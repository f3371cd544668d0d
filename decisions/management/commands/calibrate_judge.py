"""`manage.py calibrate_judge filer helpful`: measures a judge against people now, as the daily job does."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date

from decisions.judges.calibrating import calibrate_judge, calibrate_judges
from decisions.judges.ledger import JudgeName
from decisions.judges.telling import as_plain, tell_mean
from decisions.models import Agent, JudgeSource, JudgeVerdict
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError

EXIT_NOT_CALIBRATED = 1


class Command(UncheckedCommand):
    help = (
        "Measures a judge of an agent's decisions against people: agreement, biases and the corrected mean. "
        "Exit codes: 0 calibrated, 1 there is no judge, or one is refused or has drifted, 2 the input is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", help="slug")
        parser.add_argument("metric", nargs="?", help="the judge's metric; all judges by default")
        parser.add_argument(
            "--source", choices=JudgeSource.values, default="llm", help="source of the judge's feedback"
        )
        parser.add_argument("--since", metavar="DATE", help="only scores of this day (UTC) and later")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        agent = Agent.objects.for_workspace(workspace).filter(slug=options["agent"]).first()
        if agent is None:
            self.refuse(f"There is no agent {options['agent']!r} in {workspace.slug}.")
        since = self._read_since(options["since"])
        if since is not None and not options["metric"]:
            self.refuse("--since: name the judge's metric, too.")
        by = system(workspace)
        try:
            if options["metric"]:
                judge = JudgeName(options["metric"], options["source"])
                made = [calibrate_judge(by=by, agent=agent, judge=judge, since=since)]
            else:
                made = calibrate_judges(by=by, agent=agent)
        except ReckonerError as error:
            faults = [f"{one.field}: {one.reason}; expected: {one.expected}" for one in error.faults]
            self.refuse("\n".join([error.message, *faults]))
        if options["json"]:
            self.stdout.write(json.dumps({"agent": agent.slug, "judges": [as_plain(row) for row in made]}))
        else:
            self._tell(made)
        if not made or any(row.verdict != JudgeVerdict.CALIBRATED for row in made):
            sys.exit(EXIT_NOT_CALIBRATED)

    def _tell(self, made: list[Any]) -> None:
        for row in made:
            self.stdout.write(
                f"{row.metric} ({row.source}): {row.verdict}; {row.labels:,} labels of {row.scores:,} scores"
            )
            for line in [*tell_mean(row), *row.reasons, *row.warnings]:
                self.stdout.write(f"  {line}")
        if not made:
            self.stdout.write("No judge model scored the newest decisions of this agent.")

    def _read_since(self, given: str | None) -> dt.datetime | None:
        if given is None:
            return None
        try:
            day = parse_date(given)
        except ValueError:
            day = None
        if day is None:
            self.refuse(f"--since: {given!r} is no date; expected: such as 2026-11-01")
        since = dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
        if since > timezone.now():
            self.refuse(f"--since: {given} has not come yet")
        return since
