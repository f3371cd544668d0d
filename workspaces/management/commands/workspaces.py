"""`manage.py workspaces`: lists, makes and renames workspaces."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Count, Q

from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import User, Workspace
from workspaces.people.creation import create_own_workspace
from workspaces.people.members import change_workspace


class Command(UncheckedCommand):
    help = (
        "Lists, makes or renames workspaces. Exit codes: 0 done, 2 the workspace or the admin is unknown, or the name"
        " or slug is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "create", "rename"])
        parser.add_argument("slug", nargs="?", help="slug, part of every address; not needed by `list`")
        parser.add_argument("--name", help="for create and rename")
        parser.add_argument("--admin", help="create: e-mail address of its first admin, who has an account")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["action"] == "list":
            return self._list(options["json"])
        if not options["slug"] or not options["name"]:
            self.refuse(f"{options['action']} needs a slug and --name")
        try:
            if options["action"] == "create":
                admin = User.objects.filter(email=(options["admin"] or "").strip().lower()).first()
                if admin is None:
                    self.refuse("--admin: give the e-mail address of a person who has an account")
                made = create_own_workspace(user=admin, slug=options["slug"], name=options["name"], by_operator=True)
            else:
                by = system(self.find_workspace(options["slug"]))
                made = change_workspace(by=by, name=options["name"])
        except ReckonerError as error:
            faults = "; ".join(f"{fault.field}: {fault.reason}, give {fault.expected}" for fault in error.faults)
            self.refuse(faults or error.message)
        row = {"slug": made.slug, "name": made.name}
        self.stdout.write(json.dumps(row) if options["json"] else f"{made.slug}  {made.name}")
        return None

    def _list(self, as_json: bool) -> None:
        people = Count("memberships", filter=Q(memberships__deactivated_at=None))
        found = [
            {"slug": one.slug, "name": one.name, "people": one.people}
            for one in Workspace.objects.annotate(people=people).order_by("slug")
        ]
        if as_json:
            self.stdout.write(json.dumps({"workspaces": found}))
            return
        for row in found:
            self.stdout.write(f"{row['slug']:<32} {row['people']:>4} people  {row['name']}")
