"""`manage.py reward_specs`: lists, shows, compares and makes versions of an agent's reward spec."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent, RewardSpec
from decisions.queries.reward_specs import compare_specs, tell_changes
from decisions.rewards.components.defaults import PRESETS, VERDICT_ONLY
from decisions.rewards.revising import get_newest, revise_reward_spec
from decisions.rewards.spec_content import (
    SpecContent,
    compare_contents,
    editable_content,
    preset_content,
    read_content,
)
from decisions.rewards.specs import content_of
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError
from workspaces.http.yaml_text import read_yaml, write_yaml
from workspaces.models import Workspace

EXIT_UNCHANGED = 1
DEFAULT = "default"
"""In place of a number or a file: what a new agent of the kind begins with, by the defaults of today."""
SIGNS = {"same": " ", "added": "+", "removed": "-", "gap": " "}


class Command(UncheckedCommand):
    help = (
        "Lists, shows, compares or makes versions of an agent's reward spec. Exit codes: 0 done, 1 the file changes "
        "nothing or the versions are the same, 2 the input is invalid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["list", "show", "diff", "set"])
        parser.add_argument("agent", help="slug")
        parser.add_argument(
            "what",
            nargs="*",
            help="show: a number; diff: one or two numbers; set: a file in YAML, - for standard input. "
            "Or default: what a new agent of its kind begins with",
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument(
            "--expected", type=int, help="set: number of the newest version; refused if there is a newer one"
        )
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        workspace = self.find_workspace(options["workspace"])
        agent = Agent.objects.for_workspace(workspace).filter(slug=options["agent"]).first()
        if agent is None:
            self.refuse(f"There is no agent {options['agent']!r} in {workspace.slug}.")
        what, most = options["what"], {"list": 0, "show": 1, "diff": 2, "set": 1}[options["action"]]
        if len(what) > most or (options["action"] in {"diff", "set"} and not what):
            self.refuse("Give: list AGENT, show AGENT [NUMBER], diff AGENT NUMBER [NUMBER], or set AGENT FILE.")
        try:
            getattr(self, f"_{options['action']}")(workspace, agent, options)
        except ReckonerError as error:
            faults = [f"{one.field}: {one.reason}; expected: {one.expected}" for one in error.faults]
            self.refuse("\n".join([error.message, *faults]))

    def _list(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> None:
        specs = list(agent.reward_specs.order_by("-number"))
        rows = [
            {
                "number": spec.number,
                "created_at": spec.created_at.isoformat(),
                "changed": list(tell_changes(older, spec)),
            }
            for spec, older in zip(specs, [*specs[1:], None], strict=True)
        ]
        if options["json"]:
            self.stdout.write(json.dumps({"agent": agent.slug, "specs": rows}))
            return
        for row in rows:
            self.stdout.write(f"{row['number']:>4}  {row['created_at'][:16]}  {', '.join(row['changed']) or '–'}")

    def _show(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> None:
        name = options["what"][0] if options["what"] else str(get_newest(agent).number)
        told = editable_content(self._read(agent, name))
        number = None if name == DEFAULT else int(name)
        if options["json"]:
            self.stdout.write(json.dumps({"number": number, "content": told}))
        else:
            called = f"Default of a {agent.kind}" if number is None else f"Reward spec {number} of {agent.slug}"
            self.stdout.write(f"# {called}")
            self.stdout.write(write_yaml(told), ending="")

    def _diff(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> None:
        second = options["what"][1] if len(options["what"]) == 2 else str(get_newest(agent).number)
        before, after = self._read(agent, options["what"][0]), self._read(agent, second)
        changes = compare_contents(before, after)
        if options["json"]:
            told = [{"field": one.field, "before": one.before, "after": one.after} for one in changes]
            self.stdout.write(json.dumps({"changes": told}))
        for part in [] if options["json"] else compare_specs(before, after):
            self.stdout.write(part.title)
            for line in part.lines:
                self.stdout.write(f"  {SIGNS[line.kind]} {line.text or '…'}")
        if not changes:
            if not options["json"]:
                self.stdout.write("Nothing differs.")
            sys.exit(EXIT_UNCHANGED)

    def _set(self, workspace: Workspace, agent: Agent, options: dict[str, Any]) -> None:
        name = options["what"][0]
        expected = options["expected"] if options["expected"] is not None else get_newest(agent).number
        content = self._read(agent, name) if name == DEFAULT else self._read_file(name)
        made = revise_reward_spec(by=system(workspace), agent=agent, expected=expected, content=content)
        changed = [one.field for one in made.changes]
        if options["json"]:
            self.stdout.write(json.dumps({"number": made.spec.number, "changed": changed}))
        elif changed:
            self.stdout.write(
                f"Version {made.spec.number} made: {', '.join(changed)}. Its rewards are being calculated."
            )
        else:
            self.stdout.write(f"Nothing differs from version {made.spec.number}.")
        if not changed:
            sys.exit(EXIT_UNCHANGED)

    def _read_file(self, name: str) -> SpecContent:
        try:
            text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            self.refuse(f"{name} cannot be read: {error.strerror}.")
        return read_content(read_yaml(text))

    def _read(self, agent: Agent, name: str) -> SpecContent:
        if name == DEFAULT:
            return preset_content(PRESETS.get(agent.kind, VERDICT_ONLY))
        return content_of(self._find(agent, name))

    def _find(self, agent: Agent, number: str) -> RewardSpec:
        usable = number.isascii() and number.isdecimal() and len(number) < 10
        spec: RewardSpec | None = agent.reward_specs.filter(number=int(number)).first() if usable else None
        if spec is None:
            self.refuse(f"{agent.slug} has no reward spec {number}.")
        return spec
