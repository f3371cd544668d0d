"""`manage.py sandbox check`: whether untrusted code can be run here, and what is missing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from sandbox.canary import inspect_sandbox
from workspaces.commands import UncheckedCommand


class Command(UncheckedCommand):
    help = "Tests the sandbox that runs untrusted code. Exit codes: 0 it works, 1 it does not."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["check"])
        parser.add_argument("--json", action="store_true", help="everything, as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        state = inspect_sandbox()
        if options["json"]:
            self.stdout.write(json.dumps(asdict(state)))
        else:
            for name, holds in state.walls.items():
                self.stdout.write(f"{'yes' if holds else 'NO ':4} a program {name}")
            for what, where in (("bubblewrap", state.bubblewrap), ("Python", state.python), ("shell", state.shell)):
                if where:
                    self.stdout.write(f"{what}: {where}")
            self.stdout.write("The sandbox works." if state.works else f"The sandbox does not work: {state.problem}.")
        if not state.works:
            sys.exit(1)
