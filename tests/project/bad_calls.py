"""Calls of every management command with values that nobody should give, a value at a time.

`USUAL` has calls of each command that its parser takes; `make_bad_calls` puts into them each bad value of an option's
type.
"""

from __future__ import annotations

import argparse
import io
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.db import transaction

from decisions.importers.formats import FORMATS

APPS = {"project", "training", "decisions", "models_registry", "jobs", "workspaces"}
COMMON = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks",
}  # fmt: skip
STARTS = {"verify"}
"""Flags that start an engine, which takes its time."""
NOBODY = str(uuid.UUID(int=7))
USUAL: Mapping[str, Mapping[str, Any] | tuple[Mapping[str, Any], ...]] = {
    "backup": {"file": "{new}"},
    "bootstrap": {"no_demo": True},
    "calculate_rewards": {},
    "calibrate_judge": {"agent": "filer"},
    "collect_artifacts": {"dry_run": True},
    "company_run": {
        "task": "{missing}",
        "agent": "true",
        "base_url": "http://127.0.0.1:1/v1",
        "model": "m",
        "outputs": "{folder}",
        "plan": True,
    },
    "company_tasks": {"folder": "{folder}"},
    "create_dataset": {"agent": "filer", "name": "rows"},
    "create_key": {"name": "an app", "scopes": "route:read"},
    "create_notes_agents": {},
    "demo": {"action": "show"},
    "disk_usage": {},
    "draw_tasks": {"environment": "equations", "agent": "filer", "tasks": "3", "held_out": "0"},
    "drop_old_decisions": {"months": "12", "dry_run": True},
    "erase_person": {"unit": "ann", "dry_run": True},
    "evaluate": {"model": "{folder}", "test_data": "{rows.jsonl}", "agent_type": "filer"},
    "export_dataset": {"dataset": NOBODY, "to": "{new}"},
    "export_model": {"model": "{folder}", "output": "{new}"},
    "export_training_data": {"agent_type": "filer", "output": "{new}"},
    "harbor_tasks": {"folder": "{folder}"},
    "hardware": {},
    "export_traces": {"folder": "{new}", "agent": "filer"},
    "import_decisions": tuple({"path": "{words.jsonl}", "format": name, "agent": "filer"} for name in sorted(FORMATS)),
    "import_model": {"folder": "{folder}", "agent": "filer"},
    "import_dataset": {"file": "{rows.jsonl}", "agent": "filer", "name": "rows"},
    "import_labelled": {"file": "{rows.jsonl}", "agent": "filer", "name": "rows"},
    "import_texts": {"file": "{rows.jsonl}", "agent": "filer", "name": "rows"},
    "keys": ({"action": "list"}, {"action": "rotate", "prefix": "nobody"}, {"action": "revoke", "prefix": "nobody"}),
    "migrate": {"check_unapplied": True},
    "monitor": ({"run_id": NOBODY}, {"watch": True}),
    "ollama": {"action": "list", "host": "http://127.0.0.1:1"},
    "people": (
        {"action": "list"},
        {"action": "invite", "email": "ann@example.org", "role": "viewer"},
        {"action": "role", "email": "nobody@example.org", "role": "viewer"},
        {"action": "deactivate", "email": "nobody@example.org", "everywhere": True},
        {"action": "password-link", "email": "nobody@example.org"},
    ),
    "pipeline": {"agent": "filer", "detach": True},
    "rehearse": {"file": "{labelled.jsonl}", "text_field": "text", "label_field": "label"},
    "remove_expired": {},
    "restore": {"file": "{missing}"},
    "retry_jobs": {"jobs": NOBODY},
    "reward_specs": (
        {"action": "list", "agent": "filer"},
        {"action": "show", "agent": "filer"},
        {"action": "diff", "agent": "filer", "what": "1"},
        {"action": "set", "agent": "filer", "what": "{words}"},
    ),
    "runs": (
        {"action": "list"},
        {"action": "status"},
        {"action": "start", "agent": "filer"},
        {"action": "train", "agent": "filer"},
        {"action": "sweep", "agent": "filer"},
        {"action": "stop", "run": NOBODY},
        {"action": "switch", "run": NOBODY},
    ),
    "sandbox": {"action": "check"},
    "train": (
        {"data": "{rows.jsonl}", "output": "{words}", "model": "tiny"},
        {"agent_type": "filer", "output": "{new}", "model": "tiny"},
    ),
    "suggest_labels": {"agent": "filer"},
    "training_stats": {"agent_type": "FILER"},
    "up": {"port": "70000"},
    "verifiers_tasks": {"taskset": "none", "python": "{missing}"},
    "workspaces": (
        {"action": "list"},
        {"action": "create", "slug": "new", "name": "New", "admin": "owner@example.org"},
        {"action": "rename", "slug": "acme", "name": "Acme"},
    ),
    "write_harbor_tasks": {"environment": "equations", "folder": "{new}"},
}
"""A call of each by the names of its options; {kind} is a file or folder of `make_files`."""
TEXTS = ("", "nowhere", "x" * 300, "\udcff", "[" * 100_000, '{"a"')
NUMBERS: Mapping[Any, tuple[str, ...]] = {
    int: ("-1", "0", str(10**20), "many"),
    float: ("nan", "inf", "-1", "1e308", "much"),
}
TIMES = ("yesterday", "9999-12-31T23:59:59-14:00", "0001-01-01")
CONTENTS: Mapping[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 8,
    "utf16": '{"id": "1"}'.encode("utf-16"),
    "cut": b'{"id": "1", "prompt": "a',
    "nested": b"[" * 100_000,
    "list": b"[1, 2]\n",
    "null": b"null\n",
    "object": b"{}\n{}\n",
    "others": b'{"a": {"b": [1e999, NaN]}, "a": 2}\n',
    "odd": b'{"id": "\\ud800", "prompt": "a\\u0000", "options": ["a", "b"], "answer": "\\u0000", "text": 1}\n',
    "words": b"Dear Sir or Madam\n",
}
"""What no command reads."""
ENDINGS = ("", ".jsonl", ".json", ".csv", ".yaml")
PLACES = ("missing", "folder", "below", "long")


def list_commands() -> dict[str, BaseCommand]:
    return {name: load_command_class(app, name) for name, app in sorted(get_commands().items()) if app in APPS}


def list_options(command: BaseCommand, name: str) -> list[argparse.Action]:
    parser = command.create_parser("manage.py", name)
    return [action for action in parser._actions if action.dest not in COMMON]


def make_files(folder: Path) -> dict[str, str]:
    """Paths by kind: of `CONTENTS` with each ending, of places that hold no file, and two files that can be read."""
    contents = {f"{name}{ending}": content for name, content in CONTENTS.items() for ending in ENDINGS}
    row = {"id": "1", "prompt": "a", "options": ["a", "b"], "answer": "a"}
    texts = [{"text": f"{label} {number}", "label": label} for label in ("left", "right") for number in range(150)]
    contents["rows.jsonl"] = json.dumps(row).encode() + b"\n"
    contents["labelled.jsonl"] = b"".join(json.dumps(one).encode() + b"\n" for one in texts)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    there = {name: str(folder / name) for name in (*contents, "folder")}
    others = {"missing": folder / "missing", "below": folder / "empty" / "file", "long": folder / ("n" * 300)}
    return there | {name: str(path) for name, path in others.items()} | {"new": str(folder / "new")}


@dataclass(frozen=True, slots=True)
class Ended:
    """`code` is None where the call ended by itself, and the name of the exception where that is neither an exit nor a
    CommandError."""

    code: int | str | None
    said: str
    output: str


def run(name: str, arguments: Sequence[str]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    code: int | str | None = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            call_command(name, *arguments, stdout=out, stderr=err)
        except CommandError as error:
            code = error.returncode
            err.write(str(error))
        except SystemExit as end:
            code = end.code if end.code else None
        except Exception as error:  # noqa: BLE001 - what is looked for
            code = f"{type(error).__name__}: {str(error)[:200]}"
    return Ended(code, err.getvalue().strip(), out.getvalue())


def run_undone(name: str, arguments: Sequence[str]) -> Ended:
    """In a savepoint that is undone."""
    with transaction.atomic():
        ended = run(name, arguments)
        transaction.set_rollback(True)
    return ended


def make_arguments(options: list[argparse.Action], values: Mapping[str, Any], files: Mapping[str, str]) -> list[str]:
    """The command line of these values, by the options' names."""
    left = dict(values)
    line: list[str] = []
    for option in options:
        if option.dest not in left:
            continue
        value = left.pop(option.dest)
        if isinstance(value, str) and value.startswith("{") and value.endswith("}") and value[1:-1] in files:
            value = files[value[1:-1]]
        if not option.option_strings:
            line.append(value)
        elif option.nargs == 0:
            line.append(option.option_strings[0])
        else:
            line.append(f"{option.option_strings[-1]}={value}")
    assert not left, left
    return line


def make_bad_calls(name: str, options: list[argparse.Action], files: Mapping[str, str]) -> Iterator[list[str]]:
    for usual in list_usual(name):
        yield make_arguments(options, usual, files)
        for option in options:
            for value in list_bad_values(option, usual.get(option.dest), files):
                yield make_arguments(options, {**usual, option.dest: value}, files)


def list_usual(name: str) -> tuple[Mapping[str, Any], ...]:
    usual = USUAL[name]
    return usual if isinstance(usual, tuple) else (usual,)


def list_bad_values(option: argparse.Action, usual: Any, files: Mapping[str, str]) -> tuple[str, ...]:
    if option.nargs == 0:
        return () if option.dest in STARTS else ("",)  # the flag itself
    if option.choices is not None:
        return ("nonsense",)
    if option.type is Path:
        ending = Path(str(usual).strip("{}")).suffix
        return tuple(files[kind] for kind in (*PLACES, *(name + ending for name in CONTENTS)))
    if option.type in NUMBERS:
        return NUMBERS[option.type]
    return (*TEXTS, *TIMES) if option.type not in (None, str) else TEXTS
