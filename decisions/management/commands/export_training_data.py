"""`manage.py export_training_data`: rewarded decisions as JSON lines, for training elsewhere."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent, AgentKind
from decisions.queries.export import FORMATS, ExportChoice, ExportReport, export_lines
from decisions.queries.left_out import count_left_out
from workspaces.commands import UncheckedCommand
from workspaces.models import Workspace

EXIT_NOTHING, EXIT_BAD_INPUT = 1, 2
PROGRESS_EVERY = 10_000
LIMITS = ("min_reward", "require_feedback", "limit")
"""Those of the command."""


class Command(UncheckedCommand):
    help = (
        "Writes rewarded decisions as JSON lines, newest first. "
        "Exit codes: 0 written, 1 nothing matched (no file is written), 2 the input is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent-type", required=True, help="a kind (FILER, LIBRARIAN, …) or the slug of one agent")
        parser.add_argument("--output", required=True, type=Path, help="file to write; - for standard output")
        parser.add_argument("--limit", type=int, default=1000, help="maximum number of rows; 0 for all (default 1000)")
        parser.add_argument(
            "--min-reward", type=float, default=-2.0, help="smallest raw reward, from -5 to 5 (default -2.0)"
        )
        parser.add_argument("--require-feedback", action="store_true", help="only decisions with a verdict")
        parser.add_argument("--format", choices=list(FORMATS), default="chat", help="format of the rows (default chat)")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        output: Path = options["output"]
        workspace = self._find_workspace(options["workspace"])
        chosen = self._choose(workspace, options)
        if str(output) != "-" and not output.parent.is_dir():
            self._refuse(f"--output: there is no folder {output.parent}")
        if output.is_dir():
            self._refuse(f"--output: {output} is a folder; name a file")
        report = ExportReport()
        lines = export_lines(workspace=workspace, chosen=chosen, format=options["format"], report=report)
        if str(output) == "-":
            for line in lines:
                self.stdout.write(line.decode(), ending="")
        else:
            try:
                self._write(lines, output, report)
            except OSError as error:
                self._refuse(f"--output: {output}: {error.strerror}")
        counted = count_left_out(workspace=workspace, chosen=chosen).counts
        left_out = {name: counted[name] for name in LIMITS}
        for name, count in left_out.items():
            if count and not (options["json"] and str(output) == "-"):  # the report is all of standard error then
                self.stderr.write(f"--{name.replace('_', '-')} left out {count} rewarded decisions", self._plain)
        said = self.stderr if str(output) == "-" else self.stdout
        if options["json"]:
            plain = report.as_plain() | {"left_out": left_out, "output": str(output), "format": options["format"]}
            said.write(json.dumps(plain), self._plain)
        else:
            said.write(f"{report.rows} rows to {output}; {report.unusable} decisions could not be written", self._plain)
        if report.rows == 0:
            sys.exit(EXIT_NOTHING)

    @staticmethod
    def _plain(text: str) -> str:
        """Standard error is not an error's red here."""
        return text

    def _write(self, lines: Any, output: Path, report: ExportReport) -> None:
        """Beside the file first, then in its place: nobody reads half of one."""
        with tempfile.NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}-", delete=False) as handle:
            partial = Path(handle.name)
            try:
                for line in lines:
                    handle.write(line)
                    if report.rows % PROGRESS_EVERY == 0:
                        self.stderr.write(f"{report.rows} rows", self._plain)
                handle.close()
                if report.rows:
                    partial.replace(output)
            finally:
                partial.unlink(missing_ok=True)

    def _refuse(self, reason: str) -> None:
        self.stderr.write(reason)
        sys.exit(EXIT_BAD_INPUT)

    def _find_workspace(self, slug: str | None) -> Workspace:
        found = list(Workspace.objects.filter(**({"slug": slug} if slug else {}))[:2])
        if len(found) != 1:
            self._refuse(f"--workspace: {len(found) or 'no'} workspaces fit; name one")
        return found[0]

    def _choose(self, workspace: Workspace, options: dict[str, Any]) -> ExportChoice:
        wanted = options["agent_type"]
        agents = Agent.objects.for_workspace(workspace)
        is_kind = wanted in AgentKind.values
        if not agents.filter(**{"kind" if is_kind else "slug": wanted}).exists():
            self._refuse(f"--agent-type: there is no agent {wanted!r} here; a kind or a slug")
        if options["limit"] < 0:
            self._refuse(f"--limit: {options['limit']} is negative")
        if not math.isfinite(options["min_reward"]):
            self._refuse(f"--min-reward: {options['min_reward']} is not a finite number")
        return ExportChoice(
            agent=None if is_kind else wanted,
            kind=wanted if is_kind else None,
            min_reward=options["min_reward"],
            require_reward=True,
            require_feedback=options["require_feedback"],
            limit=options["limit"] or None,
        )
