"""`manage.py ollama`: puts a version's GGUF into an Ollama server, and lists, switches and deletes what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.template.defaultfilters import filesizeformat

from models_registry.versions.references import find_version
from training.engine.spec.export_formats import DEFAULT_QUANTISATION, QUANTISATIONS
from training.exports import ollama
from training.exports.hosting import HELP, PROFILE_FILE, PROFILES, STANDARD
from workspaces.commands import UncheckedCommand
from workspaces.errors import ReckonerError

NEEDS = {"deploy": ("model",), "list": (), "switch": ("name", "to"), "delete": ("name",)}


class Command(UncheckedCommand):
    help = (
        "Puts a version's GGUF into an Ollama server with its chat template and the agent's system prompt, and lists,"
        " switches and deletes models there. Exit codes: 0 done, 2 an argument is invalid, something is missing, or the"
        " server refuses or does not answer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=("deploy", "list", "switch", "delete"))
        parser.add_argument("--model", help="deploy: a version, such as filer:2 or filer@champion")
        parser.add_argument(
            "--quantization",
            choices=QUANTISATIONS,
            default=DEFAULT_QUANTISATION,
            help="deploy: quantisation of the version's GGUF",
        )
        parser.add_argument(
            "--name",
            help="name of the model in Ollama; deploy: by default such as filer:2-q4_k_m; switch: the name for callers",
        )
        parser.add_argument("--to", help="switch: the model that answers to this name from now on")
        parser.add_argument("--profile", choices=PROFILES, default=STANDARD, help=f"deploy: {HELP}")
        parser.add_argument(
            "--output", type=Path, help=f"deploy: folder for {PROFILE_FILE} with the server's variables"
        )
        parser.add_argument(
            "--host",
            default=ollama.named_host() or ollama.LOCAL,
            help="the server (OLLAMA_HOST, else %(default)s)",
        )
        parser.add_argument("--workspace", help="deploy: slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        action = options["action"]
        if missing := [name for name in NEEDS[action] if not options[name]]:
            self.refuse("\n".join(f"--{name}: {action} needs it" for name in missing))
        does = {"deploy": self._deploy, "list": self._list, "switch": self._switch, "delete": self._delete}[action]
        try:
            told = does(options)
        except ReckonerError as error:
            self.refuse(error.message)
        if options["json"]:
            self.stdout.write(json.dumps(told))

    def _deploy(self, options: dict[str, Any]) -> dict[str, Any]:
        output: Path | None = options["output"]
        if output is not None and not output.is_dir():
            self.refuse(f"--output: {output} is not a folder")
        version = find_version(self.find_workspace(options["workspace"]), options["model"])
        export = ollama.find_gguf(version, options["quantization"])
        profile = PROFILES[options["profile"]]
        done = ollama.deploy(options["host"], export=export, profile=profile, name=options["name"] or "")
        if output is not None:
            (output / PROFILE_FILE).write_text(json.dumps(done.profile, indent=2) + "\n", encoding="utf-8")
        if not options["json"]:
            variables = " ".join(f"{name}={value}" for name, value in done.profile["environment"].items())
            self.stdout.write(f"{done.name} is made of {version}. Start the server with {variables}.")
        return {"name": done.name, "digest": done.digest, "profile": done.profile}

    def _list(self, options: dict[str, Any]) -> dict[str, Any]:
        models = ollama.list_models(options["host"])
        if not options["json"]:
            for one in models:
                self.stdout.write(f"{one['name']}  {filesizeformat(one['size'])}  {str(one['digest'])[:12]}")
        return {"models": models}

    def _switch(self, options: dict[str, Any]) -> dict[str, Any]:
        ollama.switch_model(options["host"], alias=options["name"], to=options["to"])
        if not options["json"]:
            self.stdout.write(f"{options['name']} is {options['to']} now.")
        return {"name": options["name"], "to": options["to"]}

    def _delete(self, options: dict[str, Any]) -> dict[str, Any]:
        ollama.delete_model(options["host"], options["name"])
        if not options["json"]:
            self.stdout.write(f"{options['name']} is deleted.")
        return {"deleted": options["name"]}
