"""`manage.py up`: starts the whole instance; `make run` calls it."""

import json
import os
import sys
from typing import Any

from django.core.management.base import CommandParser

from project.embedded.errors import EmbeddedError, PortTakenError
from project.embedded.instance import run_instance
from project.embedded.layout import Layout, locate_var
from project.embedded.programs import Plan, plan_instance
from project.embedded.valkey import can_listen, is_port_free, pick_port
from workspaces.commands import UncheckedCommand

DEFAULT_PORT, DEFAULT_GATEWAY_PORT = 8000, 8020
PORTS_TO_TRY = 20


class Command(UncheckedCommand):
    help = (
        "Starts databases, migrations, web, workers, gateway and model server; stays until Ctrl-C or SIGTERM. "
        "Exit codes: 0 stopped; 1 a part failed; 2 the port is taken; 3 already running; with --once the demo's own."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="run the demo to its end, print its result, and stop")
        parser.add_argument("--json", action="store_true", help="announce readiness as one JSON line on stdout")
        parser.add_argument("--host", default="127.0.0.1", help="address the web process listens on")
        parser.add_argument(
            "--port", type=int, help=f"the web process's port; by default {DEFAULT_PORT} or the next free one"
        )
        gateway = f"the gateway's port; by default {DEFAULT_GATEWAY_PORT} or the next free one"
        parser.add_argument("--gateway-port", type=int, help=gateway)
        parser.add_argument("--no-demo", action="store_true", help="do not start the demo in an empty ledger")

    def handle(self, *_: Any, **options: Any) -> None:
        self._check_address(options)
        layout = Layout(locate_var())

        def make_plan() -> Plan:
            given = os.environ.get("RECKONER_MODEL_SERVER_URL")
            return plan_instance(
                layout,
                host=options["host"],
                port=choose_port(options["host"], options["port"]),
                gateway_port=choose_port(options["host"], options["gateway_port"], DEFAULT_GATEWAY_PORT),
                model_port=None if given else pick_port(layout.run / "modelserver.port"),
                with_demo=not options["no_demo"],
                once=options["once"],
            )

        announce = self._announce if options["json"] else None
        try:
            code, result = run_instance(layout, make_plan, self._say, once=options["once"], announce=announce)
        except EmbeddedError as error:
            self._say(str(error))
            sys.exit(error.exit_code)
        self.stdout.write(result, ending="")
        self.stdout.flush()
        sys.exit(code)

    def _check_address(self, options: dict[str, Any]) -> None:
        for flag, port in (("--port", options["port"]), ("--gateway-port", options["gateway_port"])):
            if port is not None and not 1 <= port <= 65_535:
                self.refuse(f"{flag}: {port} must be 1 to 65535")
        try:
            can_listen(options["host"])
        except (OSError, UnicodeError) as error:
            self.refuse(f"--host: {options['host'][:100]!r} is no address of this machine: {error}")

    def _say(self, message: str) -> None:
        self.stderr.write(message, style_func=str)
        self.stderr.flush()

    def _announce(self, url: str) -> None:
        self.stdout.write(json.dumps({"event": "ready", "url": url, "pid": os.getpid()}))
        self.stdout.flush()


def choose_port(host: str, asked: int | None, first: int = DEFAULT_PORT) -> int:
    """The port asked for, or the first free one from `first` when none was. Raises PortTakenError."""
    candidates = [asked] if asked is not None else range(first, first + PORTS_TO_TRY)
    for port in candidates:
        if is_port_free(host, port):
            return port
    wanted = str(asked) if asked is not None else f"{first} to {first + PORTS_TO_TRY - 1}"
    flag = "--port" if first == DEFAULT_PORT else "--gateway-port"
    raise PortTakenError(
        f"port {wanted} on {host} is in use; stop the program that uses it, or choose another with {flag}"
    )
