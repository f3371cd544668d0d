"""`manage.py write_harbor_tasks`: draws tasks of an environment and writes them as Harbor's task folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from training.engine.environments.harbor.writing import name_of, write_folder
from training.engine.environments.protocol import EnvironmentFault, draw_tasks
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from workspaces.commands import UncheckedCommand

MOST_TASKS = 1000
IMAGE = "reckoner:cpu"


class Command(UncheckedCommand):
    help = (
        "Draws tasks of an environment and writes each as a task folder of Harbor: instruction, containers, tests that "
        "ask our grader, and the solution if one is known. Exit codes: 0 written, 2 an argument is invalid (every "
        "fault is named, nothing is written)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environment", help="name of an environment that is installed, such as office")
        parser.add_argument("folder", type=Path, help="where a folder for each task is written")
        parser.add_argument("--tasks", type=int, default=10, help="number of tasks (default: %(default)s)")
        parser.add_argument("--first", type=int, default=0, help="number of the first task (default: 0)")
        parser.add_argument("--split", choices=["train", "heldout"], default="heldout", help="default: heldout")
        parser.add_argument("--image", default=IMAGE, help="Reckoner's image, for the world (default: %(default)s)")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        faults = []
        if not 1 <= options["tasks"] <= MOST_TASKS:
            faults.append(f"--tasks: {options['tasks']} must be 1 to {MOST_TASKS}")
        if options["first"] < 0:
            faults.append(f"--first: {options['first']} must be 0 or more")
        if not options["image"].strip() or any(letter.isspace() for letter in options["image"]):
            faults.append("--image: must be the name of an image, such as reckoner:cpu")
        try:
            environment = find_environment(options["environment"])
        except (UnknownEnvironment, BadEnvironment) as error:
            self.refuse("\n".join([str(error), *faults]))
        if options["split"] not in environment.splits:
            faults.append(f"--split: {environment.name} draws {', '.join(environment.splits)} alone")
        if faults:
            self.refuse("\n".join(faults))
        folder: Path = options["folder"]
        try:
            tasks = list(draw_tasks(environment, options["tasks"], options["split"], options["first"]))
            if there := [name for task in tasks if (folder / (name := name_of(task))).exists()]:
                self.refuse(f"{folder}: has {', '.join(there[:5])} already; name another folder")
            written = [str(write_folder(task, folder, image=options["image"])) for task in tasks]
        except EnvironmentFault as error:
            self.refuse(f"{folder}: {error}")
        except OSError as error:
            self.refuse(f"{error.filename or folder}: {error.strerror or error}")
        if options["json"]:
            self.stdout.write(json.dumps({"written": written}, ensure_ascii=False))
        else:
            self.stdout.write(f"{len(written)} task folders in {folder}")
