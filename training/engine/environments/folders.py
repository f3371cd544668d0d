"""Task folders, for agents that work on files: what to do, what to begin with, and a program that grades what is left.

    instruction.md      what the agent is told
    workspace/          files that it begins with; may be missing
    grader.py           is run after the episode, and never shown to the agent

The grader is started as `python -I grader.py WORKSPACE`, in the workspace. The last line that it prints is a JSON
object: `score` in [0, 1], and if wanted `success` (else: the score is 1) and `components`, names with numbers in
[0, 1]. A grader that ends otherwise has failed, and is an error. It is the operator's own program, and runs as one.

    python -m training.engine.environments.folders FOLDER…      prints a task of each, a line of JSON

Source of the layout: Harbor's task folders (instruction.md, tests beside it), without their container. No torch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from training.engine.environments.outside import Graded
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task

INSTRUCTION, WORKSPACE, GRADER = "instruction.md", "workspace", "grader.py"
ENVIRONMENT = "folder"
"""What such tasks name as their environment."""
GRADER_SECONDS = 120.0


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    """What a grader prints."""

    score: float
    success: bool | None = None
    components: dict[str, float | None] = {}


def read_task_folder(folder: Path) -> Task:
    """The folder as a task. Raises ValueError that says what it lacks."""
    if faults := find_folder_faults(folder):
        raise ValueError(f"{folder}: {'; '.join(faults)}")
    text = (folder / INSTRUCTION).read_text(encoding="utf-8").strip()
    return Task(folder.name, ENVIRONMENT, text, {"folder": str(folder.resolve())})


def find_folder_faults(folder: Path) -> list[str]:
    """What the folder lacks."""
    if not folder.is_dir():
        return ["is not a folder"]
    faults = [f"has no {name}" for name in (INSTRUCTION, GRADER) if not (folder / name).is_file()]
    if not faults and not (folder / INSTRUCTION).read_text(encoding="utf-8").strip():
        faults.append(f"{INSTRUCTION} is empty")
    return faults


def find_task_faults(task: Task) -> list[str]:
    """What keeps a task from being one of a folder."""
    if task.environment != ENVIRONMENT:
        return [f"environment: {task.environment!r} has no task folder; give {ENVIRONMENT!r}"]
    folder = task.facts.get("folder")
    if not isinstance(folder, str) or not folder.startswith("/"):
        return ["facts.folder: must be the absolute path of a task folder"]
    return [f"facts.folder: {folder} {fault}" for fault in find_folder_faults(Path(folder))]


def lay_out(task: Task, place: Path) -> Path:
    """A fresh copy of what the agent begins with, in `place`."""
    workspace = place / WORKSPACE
    given = Path(task.facts["folder"]) / WORKSPACE
    if given.is_dir():
        shutil.copytree(given, workspace)
    else:
        workspace.mkdir()
    return workspace


def grade(task: Task, workspace: Path) -> Graded:
    """What the folder's grader says of the workspace. Raises EnvironmentFault where it fails."""
    command = [sys.executable, "-I", str(Path(task.facts["folder"]) / GRADER), str(workspace)]
    try:
        ended = subprocess.run(  # noqa: S603 - the operator's own program
            command, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, timeout=GRADER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"the grader took longer than {GRADER_SECONDS:g} seconds") from error
    if ended.returncode:
        raise EnvironmentFault(f"the grader ended with {ended.returncode}: {last_line(ended.stderr)}")
    try:
        found = msgspec.json.decode(last_line(ended.stdout), type=_Told)
    except msgspec.DecodeError as error:
        raise EnvironmentFault(f"the grader's last line is not a grade: {error}") from error
    if not 0 <= found.score <= 1:
        raise EnvironmentFault(f"the grader's score {found.score} is not in [0, 1]")
    success = found.score == 1 if found.success is None else found.success
    return Graded(found.score, success, found.score, found.components)


def last_line(output: bytes) -> str:
    """The last one that says something, at most 500 characters of it."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][-500:] if lines else ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training.engine.environments.folders",
        description="Prints a task of each task folder, one JSON object per line.",
        epilog="Exit codes: 0 done, 2 a folder lacks something.",
    )
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
    folders = parser.parse_args(arguments).folders
    faults = [f"{folder}: {fault}" for folder in folders for fault in find_folder_faults(folder)]
    if faults:
        sys.stderr.write("".join(f"{fault}\n" for fault in faults))
        return 2
    for folder in folders:
        sys.stdout.write(json.dumps(msgspec.to_builtins(read_task_folder(folder)), ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
