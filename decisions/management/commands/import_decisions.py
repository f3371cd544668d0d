"""`manage.py import_decisions FILE|DIR`: imports decisions that agents made elsewhere, in several formats."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import CommandParser
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from decisions.importers.archives import ZIP
from decisions.importers.formats import FORMATS
from decisions.importers.reading import UnusableFile, find_files
from decisions.importers.records import Refusal, Refused, parse_moment
from decisions.importers.running import ImportOptions, ImportProgress, Report, Unusable, import_decisions
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace

EXIT_SOME_REFUSED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
SHOWN = 20
TOLD_EVERY = 10_000


def moment(text: str) -> dt.datetime:
    try:
        return parse_moment(text, "--observed-at")
    except Refused as error:
        raise argparse.ArgumentTypeError(error.reason) from error


class Command(UncheckedCommand):
    help = (
        "Imports decisions with their episodes, steps and feedback. Importing the same file again changes nothing, "
        "and resumes an interrupted import. Exit codes: 0 everything was imported, 1 some records were refused (each "
        "is listed with its place), 2 no record is valid and nothing was written, 130 interrupted between two batches."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path", type=Path, help="a file, or a folder or zip whose files are read in order of their names"
        )
        parser.add_argument("--format", required=True, choices=sorted(FORMATS), help="format of the files")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--agent", help="slug of the agent that decided; overrides the file")
        parser.add_argument("--create-agents", action="store_true", help="create missing agents")
        parser.add_argument("--observed-at", type=moment, help="time of records without a time (ISO 8601)")
        parser.add_argument("--policy", help="policy name of records without one; by default the format's name")
        parser.add_argument("--refusals", type=Path, help="file for all refusals; without it, 20 are shown")
        parser.add_argument("--report", type=Path, help="file for one JSON line for each file that was read")
        parser.add_argument("--dry-run", action="store_true", help="check everything, but import nothing")
        parser.add_argument("--json", action="store_true", help="report as one JSON line on standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        workspaces = Workspace.objects.all()
        if options["workspace"]:
            workspaces = workspaces.filter(slug=options["workspace"])
        found = list(workspaces[:2])
        if len(found) != 1:
            self._end(options, [f"--workspace: {len(found)} workspaces fit; name one"])
        order = ImportOptions(
            format=FORMATS[options["format"]],
            path=options["path"],
            agent=options["agent"],
            observed_at=options["observed_at"],
            policy=options["policy"],
            create_agents=options["create_agents"],
            dry_run=options["dry_run"],
        )
        report = Report()
        shown: list[str] = []
        try:
            with _progress(order) as watch, _refusals_file(options["refusals"]) as file:

                def refuse(refusal: Refusal) -> None:
                    if len(shown) < SHOWN:
                        shown.append(str(refusal))
                    if file is not None:
                        file.write(f"{refusal}\n")

                whole = ImportProgress(advance=watch.advance, refuse=refuse, wrote=watch.wrote)
                import_decisions(by=system(found[0]), order=order, watch=whole, report=report)
        except (Unusable, UnusableFile) as error:
            self._end(options, list(getattr(error, "faults", None) or [str(error)]))
        except OSError as error:
            self._end(options, [f"{error.filename or order.path}: {error.strerror or error}"])
        except KeyboardInterrupt:
            self._report(options, report, shown)
            self.stderr.write("Interrupted. Everything reported was imported. Run the same command again to resume.")
            sys.exit(EXIT_INTERRUPTED)
        self._report(options, report, shown)
        if options["report"]:
            _write_files(options["report"], report)
        if report.refused:
            sys.exit(EXIT_SOME_REFUSED if report.kept or report.repeated else EXIT_BAD_INPUT)

    def _end(self, options: dict[str, Any], faults: list[str]) -> None:
        """Nothing was written."""
        if options["json"]:
            self.stdout.write(json.dumps({"error": "invalid", "faults": faults[:SHOWN]}, ensure_ascii=False))
        for fault in faults[:SHOWN]:
            self.stderr.write(fault)
        if len(faults) > SHOWN:
            self.stderr.write(f"and {len(faults) - SHOWN} more")
        sys.exit(EXIT_BAD_INPUT)

    def _report(self, options: dict[str, Any], report: Report, shown: list[str]) -> None:
        for refusal in shown:
            self.stderr.write(refusal)
        if report.refused > len(shown):
            where = f"all are in {options['refusals']}" if options["refusals"] else "--refusals FILE keeps them"
            self.stderr.write(f"and {report.refused - len(shown)} more; {where}")
        if options["json"]:
            told = report.as_plain() | {"dry_run": options["dry_run"], "refusals": shown}
            self.stdout.write(json.dumps(told, ensure_ascii=False))
            return
        made = f"agents made: {', '.join(report.agents)}; " if report.agents else ""
        self.stdout.write(
            f"{'would be imported' if options['dry_run'] else 'imported'}: {report.decisions} decisions, "
            f"{report.steps} steps, {report.feedback} feedback; {made}"
            f"{report.repeated} were there before, {report.refused} refused"
        )
        if len(report.files) > 1:
            faulty = sum(counts.refused > 0 for counts in report.files.values())
            self.stdout.write(f"files: {len(report.files)} read, {faulty} with records that were refused")


def _write_files(path: Path, report: Report) -> None:
    with path.open("w", encoding="utf-8") as file:
        for name, counts in report.files.items():
            file.write(json.dumps({"file": name, **asdict(counts)}, ensure_ascii=False) + "\n")


@contextmanager
def _refusals_file(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        yield file


@contextmanager
def _progress(order: ImportOptions) -> Iterator[ImportProgress]:
    """On standard error: a bar over the bytes of both turns on a terminal, a line now and then elsewhere."""
    console = Console(stderr=True, highlight=False)
    zipped = order.path.suffix.lower() == ZIP
    files = [] if zipped else find_files(order.path, order.format.endings)
    total = 2 * sum(file.stat().st_size for file in files)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task: TaskID = progress.add_task("Looking through", total=total or None)
        told = 0

        def wrote(report: Report) -> None:
            nonlocal told
            progress.update(task, description=f"{report.decisions + report.repeated} in")
            done = report.decisions + report.feedback + report.repeated
            if not console.is_terminal and done - told >= TOLD_EVERY:
                told = done
                console.print(f"{report.decisions} decisions, {report.steps} steps, {report.feedback} feedback so far")

        yield ImportProgress(advance=lambda count: progress.advance(task, count), wrote=wrote)
