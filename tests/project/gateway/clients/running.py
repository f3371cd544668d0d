"""Runs a client's program against the gateway, and keeps what it read and what the ledger recorded."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decisions.models import Decision
from models_registry.models import Call
from tests.newer_python import environment_with
from tests.node import fetch_packages
from tests.project.gateway.clients.travel_model import text_of

PROGRAMS = Path(__file__).with_name("programs")
PACKAGES: dict[str, str] = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
DEPENDENCIES = re.compile(r"^# dependencies = (\[.*\])$", re.MULTILINE)
MARK = "part: "
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1", "AI_SDK_LOG_WARNINGS": "false"}
"""No client asks for anything but the gateway."""


@dataclass(frozen=True)
class Client:
    """A program, and an argument that chooses which of a library's models it uses."""

    program: str
    api: str = ""

    @property
    def path(self) -> Path:
        return PROGRAMS / self.program

    @property
    def requirements(self) -> list[str]:
        """As the program's head states them. Of a Python program."""
        found = DEPENDENCIES.search(self.path.read_text())
        assert found is not None, self.program
        return list(json.loads(found[1]))

    def command(self, folder: Path) -> list[str]:
        """What runs it in the folder. Skips where its packages cannot be had."""
        if self.path.suffix == ".mjs":
            node, modules = fetch_packages("clients", PACKAGES)
            for path in PROGRAMS.glob("*.mjs"):
                shutil.copy(path, folder)
            (folder / "node_modules").symlink_to(modules)
            return [node, str(folder / self.program)]
        name = f"clients_{self.path.stem}"
        return [str(environment_with(name, *self.requirements, sources=(self.path,))), str(self.path)]


@dataclass(frozen=True)
class Recorded:
    """A decision and its call in plain values, which outlive the rows. `call` is its state and tokens; `asked` is what
    the model's server got."""

    state: dict[str, Any]
    action: Any
    completion: str | None
    options: list[str] | None
    finish_reason: str | None
    tokens: tuple[int | None, int | None]
    unit: str | None
    episode: str | None
    version: str
    call: tuple[str, int | None, int | None]
    asked: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.state["messages"])

    @property
    def talk(self) -> list[tuple[str, str]]:
        return [(message["role"], text_of(message)) for message in self.messages]

    @property
    def question(self) -> str:
        """The first text of the user."""
        return next(text for role, text in self.talk if role == "user")


@dataclass
class Run:
    """`read`: what each part of the program returned; `faults`: why a part failed."""

    read: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)

    def result_of(self, part: str) -> Any:
        assert part not in self.faults, self.faults[part]
        return self.read[part]

    def about(self, *words: str) -> list[Recorded]:
        """The decisions of the chats that began with a question of these words, in their order."""
        return [one for one in self.recorded if all(word in one.question for word in words)]


def run_client(client: Client, *, url: str, key: str, asked: list[dict[str, Any]], folder: Path) -> Run:
    command = [*client.command(folder), url, key, *([client.api] if client.api else [])]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **QUIET}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    made = Run(recorded=list(_recorded(asked)))
    for line in ended.stdout.splitlines():
        _, marked, told = line.partition(MARK)  # libraries print, too, and do not always end their lines
        if not marked:
            continue
        name, value, fault = json.loads(told)
        made.read[name] = value
        if fault is not None:
            made.faults[name] = fault
    return made


def _recorded(asked: list[dict[str, Any]]) -> Iterator[Recorded]:
    rows = Decision.objects.select_related("episode", "model_version__registered_model").order_by("id")
    calls = {call.id: (call.state, call.tokens_in, call.tokens_out) for call in Call.objects.all()}
    for row, body in zip(rows, asked, strict=True):
        yield Recorded(
            state=row.state,
            action=row.action,
            completion=row.completion,
            options=row.options,
            finish_reason=row.finish_reason,
            tokens=(row.tokens_in, row.tokens_out),
            unit=row.unit,
            episode=row.episode.external_id if row.episode else None,
            version=str(row.model_version),
            call=calls[row.id],
            asked=body,
        )
