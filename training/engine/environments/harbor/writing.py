"""Tasks of our environments as Harbor folders, and such a folder back as the task.

The agent's container has nothing but Python and curl. The world, with the facts of the task, is a container beside it
from Reckoner's own image, which `serving` keeps. tests/test.sh asks it for the score; where its grader fails there is
no reward file, which Harbor reports as an error.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from training.engine.environments.harbor.folders import COMPOSE, CONFIG, DOCKERFILE, INSTRUCTION, HarborTask
from training.engine.environments.harbor.needs import OURS, own_environment
from training.engine.environments.harbor.serving import PORT, word_of
from training.engine.environments.protocol import BaseEnvironment
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task

WORLD = "environment/world/task.json"
"""Within the build of the world's container alone: the agent's never sees it."""
ORGANISATION = "reckoner"
DIFFICULTY = {1: "easy", 2: "medium", 3: "hard"}
AGENT_SECONDS, VERIFIER_SECONDS = 900, 60
AGENT_IMAGE = """\
FROM python:3.12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
WORKDIR /work
"""
SERVICES = """\
services:
  main:
    environment: {{ RECKONER_WORLD: "http://world:{port}" }}
    depends_on: {{ world: {{ condition: service_healthy }} }}
  world:
    build: {{ context: ./world }}
    healthcheck:
      test: ["CMD", "python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/world')"]
      interval: 2s
      retries: 30
"""
WORLD_IMAGE = """\
FROM {image}
COPY task.json /task.json
CMD ["python", "-m", "training.engine.environments.harbor.serving", "/task.json"]
"""
SENT = """\
import json, os, urllib.request

WORLD = os.environ.get("RECKONER_WORLD", "http://world:{port}")
"""
GRADE = """\
request = urllib.request.Request(WORLD + "/grade", headers={{"Authorization": "Bearer {word}"}})
with urllib.request.urlopen(request) as answer:
    grade = json.load(answer)
folder = os.environ.get("VERIFIER_LOGS", "/logs/verifier")
os.makedirs(folder, exist_ok=True)
with open(folder + "/reward.json", "w") as file:
    json.dump(grade, file)
"""
SOLVE = """\
for action in {actions}:
    body = json.dumps({{"action": action}}).encode()
    urllib.request.urlopen(urllib.request.Request(WORLD + "/call", body, {{"Content-Type": "application/json"}}))
"""
SCRIPT = """\
#!/bin/sh
exec python3 "$(dirname "$0")/{name}.py"
"""
INSTRUCTIONS = """\
{text}

You act by calling http://world:{port} (the variable RECKONER_WORLD), for instance with curl:

- `GET /world` says how things stand and which actions are on offer.
- `GET /tools` lists the tools with the JSON schemas of their arguments.
- `POST /call` takes `{{"action": "…"}}` for an action on offer, or `{{"tool": "…", "arguments": {{…}}}}`.

{steps} calls are taken at most. What counts is how things stand in the end.
"""


class NotOurs(ValueError):
    """A folder is no task of ours, or was changed so that it is none any more."""


def write_folder(task: Task, folder: Path, *, image: str) -> Path:
    """Writes the task into a new folder within `folder` and returns it. `image`: Reckoner's own, which has the
    environment. Raises FileExistsError, ValueError for a task that its environment refuses, UnknownEnvironment."""
    environment = find_environment(task.environment)()
    environment.reset(task, task.seed)
    files = {
        CONFIG: _write_config(task),
        INSTRUCTION: INSTRUCTIONS.format(text=task.text, port=PORT, steps=environment.max_steps),
        f"environment/{DOCKERFILE}": AGENT_IMAGE,
        f"environment/{COMPOSE}": SERVICES.format(port=PORT),
        f"environment/world/{DOCKERFILE}": WORLD_IMAGE.format(image=image),
        WORLD: msgspec.json.format(msgspec.json.encode(task)).decode() + "\n",
        "tests/test.sh": SCRIPT.format(name="grade"),
        "tests/grade.py": (SENT + GRADE).format(port=PORT, word=word_of(task)),
    }
    if (actions := _solve(environment)) is not None:
        files["solution/solve.sh"] = SCRIPT.format(name="solve")
        files["solution/solve.py"] = (SENT + SOLVE).format(port=PORT, actions=json.dumps(actions, indent=4))
    place = folder / name_of(task)
    place.mkdir(parents=True)
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    return place


def read_own_task(place: Path, task: HarborTask) -> Task:
    """The task that a folder was written from. Raises NotOurs."""
    if (name := own_environment(task)) is None:
        raise NotOurs(f"{task.folder}: metadata.{OURS} does not name one of our environments")
    try:
        found = msgspec.json.decode((place / WORLD).read_bytes(), type=Task)
    except (OSError, msgspec.DecodeError) as error:
        raise NotOurs(f"{task.folder}/{WORLD}: {error}") from error
    if found.environment != name:
        raise NotOurs(f"{task.folder}/{WORLD}: is of environment {found.environment!r}, but task.toml says {name!r}")
    return found


def name_of(task: Task) -> str:
    """The folder's name, which Harbor takes as a part of org/name."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", task.id).strip("-._") or "task"


def _solve(environment: BaseEnvironment) -> list[str] | None:
    """What a worker who knows the solution does; None where nobody knows it."""
    actions = []
    while not environment.done:
        action = environment.find_expert_action()
        if action is None:
            return None
        environment.step(action)
        actions.append(action)
    return actions if environment.solved else None


def _write_config(task: Task) -> str:
    lines = [
        'schema_version = "1.4"',
        "\n[task]",
        f"name = {_quote(f'{ORGANISATION}/{name_of(task)}')}",
        f"description = {_quote(task.text.splitlines()[0])}",
        "\n[metadata]",
        f"{OURS} = {_quote(task.environment)}",
        *(f"{key} = {_quote(value)}" for key, value in _metadata(task).items() if value),
        f"\n[agent]\ntimeout_sec = {AGENT_SECONDS}",
        f"\n[verifier]\ntimeout_sec = {VERIFIER_SECONDS}",
        "\n[environment]\ncpus = 1\nmemory_mb = 1024",
    ]
    return "\n".join(lines) + "\n"


def _metadata(task: Task) -> dict[str, Any]:
    return {"difficulty": DIFFICULTY[task.level], "category": task.domain, "template": task.template}


def _quote(text: str) -> str:
    """A basic string of TOML: JSON's escapes, and DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
