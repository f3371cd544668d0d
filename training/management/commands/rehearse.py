"""`manage.py rehearse FILE`: runs the loop on a file of labelled texts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import CommandParser
from rich.console import Console

from jobs.errors import AlreadyFinished
from jobs.following import EXIT_INTERRUPTED, follow_job, result_console
from models_registry.backends.model_server import is_reachable
from training.loops.rehearsal.estimate import EstimateError, estimate_seconds, measure_rates
from training.loops.rehearsal.plan import Plan, PlanError, check_plan
from training.loops.rehearsal.services import cancel_rehearsal, find_base_faults, find_rehearsal, start_rehearsal
from training.loops.rehearsal.source import Source, SourceError, read_source
from training.loops.rehearsal.text import print_report, print_split
from training.models import Rehearsal
from training.runs.architectures import tell_unchecked
from training.runs.base_models import TINY
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.models import Role, User

EXIT_NOT_BETTER, EXIT_BAD_INPUT, EXIT_NO_RESULT = 1, 2, 3


class Command(UncheckedCommand):
    help = (
        "Rehearses the loop on labelled texts: a base model trained on a few labels decides, learns only from feedback "
        "on its own decisions, and is compared with a model that saw every label. Runs in a separate workspace. "
        "Needs a running instance (make run). The same file with the same settings resumes where it stopped. "
        "With a pretrained base it first measures a few batches and says how long everything will take. "
        "Exit codes: 0 better with every seed, 1 not shown to be better, 2 the file or the settings are invalid "
        "(every fault is named, nothing is written), 3 it did not end with a result, 130 interrupted and cancelled."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="CSV with a header line, JSON lines or a JSON list, in UTF-8")
        parser.add_argument("--text-field", required=True, help="field with the text")
        parser.add_argument(
            "--label-field", required=True, help="field with the right label; 2 to 200 different labels"
        )
        parser.add_argument(
            "--seed-share", type=float, default=0.05, help="share of labels that train the base model (0.05)"
        )
        parser.add_argument(
            "--decisions", type=int, help="number of decisions; by default as many as there are, up to 10,000"
        )
        parser.add_argument("--rounds", type=int, default=4, help="how often a new model is trained (4)")
        parser.add_argument("--seeds", type=int, default=1, help="how often everything is repeated with other rows (1)")
        parser.add_argument("--noise", type=float, default=0.0, help="share of feedback that is wrong (0)")
        parser.add_argument("--late", type=float, default=0.0, help="share of feedback that arrives one round late (0)")
        parser.add_argument("--missing", type=float, default=0.0, help="share of decisions without feedback (0)")
        parser.add_argument(
            "--labels",
            type=int,
            default=0,
            help="number of decisions that also get a reviewer's label, rejected ones first (0)",
        )
        parser.add_argument("--temperature", type=float, default=0.25, help="temperature of the acting policy (0.25)")
        parser.add_argument("--epsilon", type=float, default=0.05, help="share of uniform exploration (0.05)")
        parser.add_argument(
            "--base",
            default="",
            metavar="PATH_OR_HUB_ID",
            help="pretrained base that RECKONER_BASE_MODELS allows; by default the instance's own",
        )
        parser.add_argument(
            "--lora", action="store_true", help="train an adapter in each round; by default every weight but embeddings"
        )
        parser.add_argument(
            "--owner",
            action="append",
            default=[],
            metavar="EMAIL",
            help="e-mail address of a person who may see it; by default every admin",
        )
        parser.add_argument("--again", action="store_true", help="run it again even if it was done before")
        parser.add_argument("--detach", action="store_true", help="start it and do not wait")
        parser.add_argument("--json", action="store_true", help="the report as one JSON line on standard output")

    def handle(self, *_: Any, **options: Any) -> None:
        source, plan, owners = self._read(options)
        errors = Console(stderr=True, highlight=False)
        if not is_reachable():
            self._end(options, "The model server does not answer. Start the instance first (make run).", EXIT_NO_RESULT)
        if options["again"] or not find_rehearsal(source, plan, (options["text_field"], options["label_field"])):
            self._tell_time(options, errors, source, plan)
        rehearsal = start_rehearsal(
            source=source,
            plan=plan,
            text_field=options["text_field"],
            label_field=options["label_field"],
            owners=owners,
            requested_by="manage.py rehearse",
            again=options["again"],
        )
        print_split(errors, source, plan)
        errors.print(f"Workspace    {rehearsal.workspace.slug}")
        if options["detach"]:
            if options["json"]:
                self.stdout.write(json.dumps({"rehearsal": str(rehearsal.id), "workspace": rehearsal.workspace.slug}))
            return
        try:
            follow_job(lambda: _find(rehearsal).job, console=errors, title="rehearsal", stage=_stage)
        except KeyboardInterrupt:
            self._cancel(rehearsal)
            self._end(options, "Cancelled. Run the same command again to resume.", EXIT_INTERRUPTED)
        rehearsal = _find(rehearsal)
        if rehearsal.report is None:
            assert rehearsal.job is not None
            reason = rehearsal.job.error or rehearsal.job.message
            self._end(options, f"The rehearsal is {rehearsal.job.state}: {reason}", EXIT_NO_RESULT)
        self._report(rehearsal, as_json=options["json"])

    def _tell_time(self, options: dict[str, Any], console: Console, source: Source, plan: Plan) -> None:
        """Of a pretrained base; the tiny one takes minutes."""
        base = plan.base or settings.BASE_MODEL
        if base == TINY:
            return
        console.print(f"Base         {base}{', by LoRA' if plan.lora else ''}", soft_wrap=True)
        if unchecked := tell_unchecked(base):
            console.print(f"Check        {unchecked}", soft_wrap=True)
        asked = replace(plan, base=base)
        try:
            rates = measure_rates(asked, source)
        except EstimateError as error:
            self._end(options, str(error), EXIT_NO_RESULT)
        console.print(
            f"Time         about {max(1, round(estimate_seconds(asked, source, rates) / 60)):,} minutes: "
            f"{rates.trained:.1f} rows a second in training, {rates.scored:.1f} in scoring, measured on a few batches",
            soft_wrap=True,
        )

    def _read(self, options: dict[str, Any]) -> tuple[Source, Plan, list[User]]:
        """Everything that is asked, checked whole before anything is written."""
        faults: list[str] = []
        plan = Plan(
            **{name: options[name] for name in ("seed_share", "decisions", "rounds", "seeds", "noise", "late")},
            **{name: options[name] for name in ("missing", "labels", "temperature", "epsilon", "lora")},
            base=_absolute(options["base"]),
        )
        faults += find_base_faults(plan)
        source = None
        try:
            source = read_source(options["file"], text_field=options["text_field"], label_field=options["label_field"])
            check_plan(plan, source)
        except (SourceError, PlanError) as error:
            faults += error.faults
        owners = list(User.objects.filter(email__in=[email.lower() for email in options["owner"]]))
        known = {owner.email for owner in owners}
        faults += [f"owner: there is no user {email}" for email in options["owner"] if email.lower() not in known]
        if faults or source is None:
            if options["json"]:
                self.stdout.write(json.dumps({"error": "invalid", "faults": faults}, ensure_ascii=False))
            for fault in faults:
                self.stderr.write(fault)
            sys.exit(EXIT_BAD_INPUT)
        admins = User.objects.filter(is_active=True, memberships__role=Role.ADMIN).distinct()
        return source, plan, owners or list(admins)

    @staticmethod
    def _cancel(rehearsal: Rehearsal) -> None:
        try:
            cancel_rehearsal(by=system(rehearsal.workspace), rehearsal=rehearsal)
        except AlreadyFinished:
            return  # it was over before the request came

    def _report(self, rehearsal: Rehearsal, *, as_json: bool) -> None:
        job, report = rehearsal.job, rehearsal.report
        assert job is not None and job.started_at is not None and job.finished_at is not None and report is not None
        seconds = round((job.finished_at - job.started_at).total_seconds(), 1)
        if as_json:
            named = {"rehearsal": str(rehearsal.id), "workspace": rehearsal.workspace.slug, "seconds": seconds}
            self.stdout.write(json.dumps({**report, **named}, ensure_ascii=False))
        else:
            console = result_console(sys.stdout)
            print_report(console, report)
            console.print(f"Took         {seconds:.0f} s; kept in workspace {rehearsal.workspace.slug}")
        sys.exit(0 if report["better"] else EXIT_NOT_BETTER)

    def _end(self, options: dict[str, Any], reason: str, code: int) -> NoReturn:
        if options["json"]:
            self.stdout.write(json.dumps({"error": reason}))
        else:
            self.stderr.write(reason)
        sys.exit(code)


def _absolute(base: str) -> str:
    """A folder by its whole path, which means the same to the worker; a hub id as it is."""
    return str(Path(base).resolve()) if base and Path(base).is_dir() else base


def _find(rehearsal: Rehearsal) -> Rehearsal:
    return Rehearsal.objects.select_related("job", "workspace").get(id=rehearsal.id)


def _stage(message: str) -> str:
    """Without the counts and shares, which change all the time."""
    return message.split(" (")[0].rsplit(":", 1)[0]
