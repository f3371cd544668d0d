"""`manage.py create_key`: an API key for a program, shown once."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from workspaces.access.actors import system
from workspaces.access.services import MAX_LIFE, KeyLimits, create_api_key
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import Scope

LONGEST_NAME = 200
FLAGS = {
    "scopes": "--scope",
    "requests_a_minute": "--requests-a-minute",
    "spend_a_day": "--spend-a-day",
    "agents": "--agent",
}


def _amount(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or found != round(found, 6):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an amount; give a number with at most 6 decimals, such as 2.50"
        )
    return found


class Command(UncheckedCommand):
    help = (
        "Creates an API key and prints it once. Exit codes: 0 created, 2 the workspace, a scope, the time or a limit is"
        " invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the key: what it is for")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument(
            "--scope",
            action="append",
            dest="scopes",
            help=f"one of {', '.join(Scope.values)}; repeatable",
            default=None,
        )
        parser.add_argument("--expires-days", type=float, help="days until the key expires (default: never)")
        parser.add_argument(
            "--requests-a-minute",
            type=int,
            help="most requests per minute (default: the instance's limit)",
        )
        parser.add_argument(
            "--spend-a-day",
            type=_amount,
            help="largest cost of its calls in a day (UTC), in the unit of the backends' prices (default: no budget)",
        )
        parser.add_argument(
            "--agent",
            action="append",
            dest="agents",
            default=None,
            help="slug of an agent that it may ask; repeatable (default: all agents)",
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        if not 1 <= len(options["name"]) <= LONGEST_NAME:
            self.refuse(f"name: has {len(options['name'])} characters; 1 to {LONGEST_NAME} are allowed")
        days = options["expires_days"]
        if days is not None and not 0 < days <= MAX_LIFE.days:
            self.refuse(f"--expires-days: more than 0, at most {MAX_LIFE.days}")
        expires_at = None if days is None else timezone.now() + dt.timedelta(days=days)
        try:
            made = create_api_key(
                by=system(workspace),
                name=options["name"],
                scopes=options["scopes"] or [],
                expires_at=expires_at,
                limits=KeyLimits(options["requests_a_minute"], options["spend_a_day"], options["agents"] or ()),
            )
        except ReckonerError as error:
            told = (f"{FLAGS[fault.field]}: {fault.reason}, give {fault.expected}" for fault in error.faults)
            self.refuse("; ".join(told))
        if options["json"]:
            self.stdout.write(json.dumps({"key": made.token, "prefix": made.key.prefix, "scopes": made.key.scopes}))
        else:
            self.stdout.write(made.token)
