"""A run in which an agent of OpenHands' own SDK acts on the weights in training, made once for all tests that read it.

It needs Python 3.12 or newer and packages from PyPI (tests/newer_python.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.newer_python import environment_with
from tests.once import made_once
from training.engine.environments import openhands
from training.engine.environments.folders import read_task_folder
from training.engine.environments.openhands import OpenHands
from training.engine.environments.tasks import Task

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = OpenHands.python.variable
GRADER = """
import json, pathlib, sys

answer = pathlib.Path(sys.argv[1], "answer.txt")
print(json.dumps({"score": float(answer.is_file() and answer.read_text().strip() == "travel")}))
"""
INSTRUCTION = "Complete: write where to go into answer.txt."
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}"
    "{{ message['content'][:20] if message['role'] == 'system' else message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A tiny model cannot read the SDK's whole prompt."""
WRITES = '[{"name": "terminal", "arguments": {"command": "cat wanted.txt > answer.txt"}}]'


def find_sdk() -> Path:
    """The interpreter of an environment that has the SDK, as the documentation makes it."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return environment_with("openhands", *OpenHands.python.install.split(), sources=(Path(openhands.__file__),))


def write_task(folder: Path) -> Task:
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace" / "wanted.txt").write_text("travel\n")
    (folder / "instruction.md").write_text(INSTRUCTION)
    (folder / "grader.py").write_text(GRADER)
    return read_task_folder(folder)


def learn_by_openhands() -> Path:
    """The folder of a GRPO run's attempt: one update on two episodes, by a tiny model that was taught the task."""
    return made_once("openhands-run", _learn) / "run" / "attempts" / "1"


def _learn(folder: Path) -> None:
    sdk, task = find_sdk(), write_task(folder / "trip")
    prompts = [task.text, "Result of terminal: \n[The command completed with exit code 0.]"]
    taught = [
        {
            "id": str(n),
            "system": "<SOUL>\nYou are OpenH"[:20],
            "prompt": prompts[n % 2],
            "completion": WRITES,
            "source": "human",
        }
        for n in range(64)
    ]
    shape = {"hidden": 32, "vocabulary": 500, "max_positions": 1024}
    spec: dict[str, Any] = {
        "method": "pretrain",
        "base": {"tiny": shape},
        "data": {"rows": "text"},
        "max_completion_tokens": 64,
        "optimiser": {"learning_rate": 0.01, "epochs": 16, "batch_size": 16},
    }
    base = _run_engine(folder / "base", spec, taught) / "model"
    (base / "chat_template.jinja").write_text(TEMPLATE)
    short = msgspec.to_builtins(msgspec.structs.replace(task, facts=task.facts | {"max_steps": 2}))
    spec = {
        "method": "grpo",
        "base": {"path": str(base)},
        "data": {"rows": "tasks"},
        "online": {"steps": 1, "prompts_per_step": 1, "group": 2, "alarms": None},
        "sampling": {"temperature": 0.1},
        "max_prompt_tokens": 800,
        "max_completion_tokens": 64,
    }
    _run_engine(folder / "run", spec, [short], "--agent", "openhands", sdk=sdk)


def _run_engine(
    run: Path, spec: dict[str, Any], rows: list[dict[str, Any]], *arguments: str, sdk: Path | None = None
) -> Path:
    """The folder of the attempt."""
    run.mkdir()
    (run / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {"run_id": run.name, "threads": 1, "samples": 0, **spec}
    (run / "spec.json").write_text(json.dumps(spec | {"data": {"train": "train.jsonl"} | spec["data"]}))
    command = [sys.executable, "-m", "training.engine", str(run), "--attempt", "1", *arguments]
    variables = os.environ | ({VARIABLE: str(sdk)} if sdk else {})
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=variables, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return run / "attempts" / "1"
