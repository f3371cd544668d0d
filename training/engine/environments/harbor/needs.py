"""What a Harbor task needs to be run and graded, and what of it is not here."""

from __future__ import annotations

import re
from typing import NamedTuple

from training.engine.environments.harbor.folders import HarborTask
from training.engine.environments.registry import known_environments

DOWNLOADS = re.compile(r"(?<![\w/.-])(apt-get|apt|apk|curl|wget|pip3?|uvx?|npm|npx|git clone|conda|cargo)(?= )")
"""Commands that fetch something. A text that only looks like one counts too: better one need too many."""
OURS = "reckoner"
"""In a task's metadata: the name of our environment that it belongs to."""


class Lack(NamedTuple):
    """What keeps a task from being graded here, by its `kind`."""

    kind: str
    reason: str


KINDS = {
    "image": "run in a container of their own image",
    "services": "need containers besides the agent's",
    "downloads": "fetch something from the network to be built or graded",
    "steps": "have several steps, which Harbor runs one after another",
    "gpu": "need an accelerator",
    "windows": "need Windows",
    "tools": "need tool servers for the agent (MCP)",
    "variables": "need values from the environment they run in",
    "environment": "belong to an environment of Reckoner that is not installed here",
}


def own_environment(task: HarborTask) -> str | None:
    """The name of our environment that the task was written from."""
    name = task.metadata.get(OURS)
    return name if isinstance(name, str) else None


def why_not_gradable(task: HarborTask) -> tuple[Lack, ...]:
    """Everything that is missing for grading the task here, where no container runs; empty for tasks that were written
    from an environment that is installed, because that grades them itself."""
    name = own_environment(task)
    if name is not None:
        if name in known_environments():
            return ()
        return (Lack("environment", f"its environment {name!r} is not installed"),)
    lacks = []
    built = f", with {len(task.commands)} commands that build it" if task.commands else ""
    lacks.append(
        Lack("image", f"it runs in a container: {', '.join(task.images) or 'of its docker-compose.yaml'}{built}")
    )
    if task.services:
        lacks.append(Lack("services", f"it needs the containers {', '.join(task.services)}"))
    texts = [*task.commands, *(part.test for part in task.parts)]
    if found := sorted({word for text in texts for word in DOWNLOADS.findall(text)}):
        lacks.append(Lack("downloads", f"it fetches something by {', '.join(found)}"))
    if len(task.parts) > 1:
        lacks.append(Lack("steps", f"it has {len(task.parts)} steps"))
    if task.gpus or task.tpu:
        lacks.append(Lack("gpu", f"it needs {f'{task.gpus} GPUs' if task.gpus else 'a TPU'}"))
    if task.os != "linux":
        lacks.append(Lack("windows", f"it needs {task.os}"))
    if task.tools:
        lacks.append(Lack("tools", f"its agent needs the tool servers {', '.join(task.tools)}"))
    if task.variables:
        lacks.append(Lack("variables", f"it needs the variables {', '.join(task.variables)}"))
    return tuple(lacks)
