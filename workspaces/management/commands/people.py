"""`manage.py people`: lists people; invites, changes roles, deactivates, and makes password links."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from workspaces.access.actors import Actor, system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import Membership, Role, User
from workspaces.people.invitations import invite_person
from workspaces.people.members import (
    change_role,
    deactivate_account,
    deactivate_member,
    end_all_sessions,
    make_password_link,
    reactivate_account,
    reactivate_member,
    remove_two_factor,
)
from workspaces.people.serializers import MemberSerializer

EVERYWHERE = {"deactivate": deactivate_account, "reactivate": reactivate_account}
ACTIONS = ("list", "invite", "role", "deactivate", "reactivate", "password-link", "end-sessions", "remove-two-factor")


class Command(UncheckedCommand):
    help = (
        "Lists and changes the people of a workspace. Exit codes: 0 done, 2 the workspace, the person or the role is"
        " unknown, or the workspace would lose its last admin."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=ACTIONS)
        parser.add_argument("email", nargs="?", help="e-mail address of the person; not needed by `list`")
        parser.add_argument("--role", choices=Role.values, help="for invite and role")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument(
            "--everywhere", action="store_true", help="deactivate, reactivate: the account, in every workspace"
        )
        parser.add_argument(
            "--url", default="http://localhost:8000", help="address at which people open Reckoner; links begin with it"
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        action, email = options["action"], (options["email"] or "").strip().lower()
        if options["everywhere"]:
            return self._act_everywhere(action, email, options["json"])
        by = system(self.find_workspace(options["workspace"]))
        if action == "list":
            return self._list(by, options["json"])
        if not email:
            self.refuse(f"email: {action} needs the person's address")
        if action in ("invite", "role") and not options["role"]:
            self.refuse(f"--role: {action} needs one of {', '.join(Role.values)}")
        try:
            link = self._act(by, action, email, options["role"])
        except ReckonerError as error:
            faults = "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)
            self.refuse(faults or error.message)
        if link is not None:
            link = options["url"].rstrip("/") + link
        if options["json"]:
            self.stdout.write(json.dumps({"action": action, "email": email, "link": link}))
        else:
            self.stdout.write(link or f"{action}: {email}")
        return None

    def _act_everywhere(self, action: str, email: str, as_json: bool) -> None:
        if action not in EVERYWHERE:
            self.refuse(f"--everywhere: goes with {' and '.join(EVERYWHERE)}")
        user = User.objects.filter(email=email).first()
        if user is None:
            self.refuse(f"email: nobody has an account with {email or 'no address'}")
        try:
            EVERYWHERE[action](user=user)
        except ReckonerError as error:
            self.refuse(error.message)
        row = {"action": action, "email": email, "everywhere": True}
        self.stdout.write(json.dumps(row) if as_json else f"{action} everywhere: {email}")

    def _act(self, by: Actor, action: str, email: str, role: str | None) -> str | None:
        """The path of a link, where the action makes one."""
        if action == "invite":
            return invite_person(by=by, email=email, role=role or "").path
        membership = Membership.objects.filter(workspace=by.workspace, user__email=email).first()
        if membership is None:
            self.refuse(f"email: {email} is not in {by.workspace.slug}; `people list` shows who is")
        if action == "role":
            change_role(by=by, membership=membership, role=role or "")
        elif action == "deactivate":
            deactivate_member(by=by, membership=membership)
        elif action == "reactivate":
            reactivate_member(by=by, membership=membership)
        elif action == "end-sessions":
            end_all_sessions(by=by, membership=membership)
        elif action == "remove-two-factor":
            remove_two_factor(by=by, membership=membership)
        else:
            return make_password_link(by=by, membership=membership, everywhere=True).path
        return None

    def _list(self, by: Actor, as_json: bool) -> None:
        found = Membership.objects.filter(workspace=by.workspace).select_related("user").order_by("user__email")
        people = MemberSerializer(found, many=True).data
        if as_json:
            self.stdout.write(json.dumps({"people": people}, default=str))
            return
        for one in people:
            self.stdout.write(f"{one['email']:<40} {one['role']:<9} {one['state']:<12} {one['name']}")
