"""`manage.py bootstrap`: the first admin with a one-time password, a workspace, and the demo."""

from __future__ import annotations

import json
import secrets
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser
from django.db import transaction

from decisions.models import Decision
from jobs.models import Job
from jobs.sweeper import resume_alone
from project.demo.loop import KIND
from project.demo.start import WorkspaceInUse, start_demo
from workspaces.access.actors import system
from workspaces.access.services import create_workspace
from workspaces.accounts.passwords import FIRST_ADMIN, keep_one_time_password
from workspaces.commands import UncheckedCommand
from workspaces.models import Membership, Role, User, Workspace


class Command(UncheckedCommand):
    help = (
        "Makes the first admin (with a one-time password, printed once) and a workspace if there are none, and starts "
        "the demo world if the ledger is empty. Running it again changes nothing. Exit code: 0."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="migrate the database first")
        parser.add_argument("--no-demo", action="store_true", help="do not start the demo")
        parser.add_argument(
            "--resume",
            choices=["clean", "crashed"],
            help="take back the jobs that an earlier run of this only instance left, and how that run ended",
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["migrate"]:
            # In this process: a second one would load everything again.
            with (settings.VAR / "log" / "migrate.log").open("w") as log:
                call_command("migrate", interactive=False, stdout=log)
        self._bootstrap(options)
        if options["resume"]:
            resume_alone(clean=options["resume"] == "clean")

    @transaction.atomic
    def _bootstrap(self, options: dict[str, Any]) -> None:
        password = None
        admin = User.objects.filter(memberships__role=Role.ADMIN).first()
        if admin is None:
            password = secrets.token_urlsafe(16)
            admin = User.objects.create_user(FIRST_ADMIN, password, name="Admin", must_change_password=True)
            keep_one_time_password(password)
        workspace = Workspace.objects.order_by("created_at").first()
        if workspace is None:
            slug, name = ("main", "Main") if options["no_demo"] else ("demo", "Demo world")
            workspace = create_workspace(slug=slug, name=name)
        if not workspace.memberships.exists():  # an admin of another workspace has no business here
            Membership.objects.create(workspace=workspace, user=admin, role=Role.ADMIN)
        job = None
        if not options["no_demo"] and (workspace.slug == "demo" or not Decision.objects.exists()):
            job = Job.objects.filter(kind=KIND).order_by("created_at").first() or self._start_demo(workspace)
        report = {
            "admin": admin.email,
            "one_time_password": password,
            "workspace": workspace.slug,
            "demo_job": str(job.id) if job else None,
        }
        if options["json"]:
            self.stdout.write(json.dumps(report))
        elif password is not None:
            self.stdout.write(f"first admin: {admin.email}   one-time password: {password}")

    @staticmethod
    def _start_demo(workspace: Workspace) -> Job | None:
        try:
            return start_demo(by=system(workspace))
        except WorkspaceInUse:
            return None  # someone set it up for an app of their own: the instance starts all the same
