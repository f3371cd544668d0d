"""`manage.py keys`: lists, rotates and revokes a workspace's API keys. `create_key` makes one."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.core.management.base import CommandParser

from workspaces.access.actors import Actor, system
from workspaces.access.services import revoke_api_key, rotate_api_key
from workspaces.api.serializers import KeySerializer
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.models import ApiKey


class Command(UncheckedCommand):
    help = "Lists, rotates or revokes API keys. Exit codes: 0 done, 2 the workspace or the key is unknown or not live."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "rotate", "revoke"])
        parser.add_argument("prefix", nargs="?", help="prefix of the key: the part before the dot")
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument(
            "--overlap-hours",
            type=float,
            default=24.0,
            help="rotate: hours that the old secret keeps working, 0 to 720 (default 24)",
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        by = system(self.find_workspace(options["workspace"]))
        if options["action"] == "list":
            return self._list(by, options["json"])
        key = ApiKey.objects.for_workspace(by.workspace).filter(prefix=options["prefix"] or "").first()
        if key is None:
            self.refuse(f"There is no key {options['prefix'] or ''!r} in {by.workspace.slug}; `keys list` shows them.")
        try:
            if options["action"] == "revoke":
                revoke_api_key(by=by, key=key)
                return self._say(options["json"], {"revoked": key.prefix}, f"revoked {key.prefix}")
            made = rotate_api_key(by=by, key=key, overlap=dt.timedelta(hours=options["overlap_hours"]))
        except (ReckonerError, OverflowError) as error:
            self.refuse(f"--overlap-hours: {error}" if options["action"] == "rotate" else str(error))
        until = made.key.previous_until.isoformat() if made.key.previous_until else None
        return self._say(options["json"], {"key": made.token, "previous_until": until}, made.token)

    def _list(self, by: Actor, as_json: bool) -> None:
        keys = KeySerializer(ApiKey.objects.for_workspace(by.workspace).order_by("id"), many=True).data
        if as_json:
            self.stdout.write(json.dumps({"keys": keys}, default=str))
            return
        for key in keys:
            self.stdout.write(f"{key['prefix']}  {key['state']:<8}  {','.join(key['scopes']):<32}  {key['name']}")

    def _say(self, as_json: bool, plain: dict[str, Any], line: str) -> None:
        self.stdout.write(json.dumps(plain) if as_json else line)
