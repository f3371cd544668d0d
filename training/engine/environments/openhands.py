"""The agent `openhands`: an agent of the OpenHands SDK works on a task folder, and asks the weights in training.

The SDK needs Python 3.12 or newer and packages that cannot stand beside ours, so a program of an environment of its own
(openhands_program.py) loads it once and forks a process for each episode. Its terminal can do what the engine's user
can: run it in a container or a machine of its own. No torch.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

from training.engine.environments.folders import find_task_faults, grade, last_line, lay_out
from training.engine.environments.openhands_program import Program
from training.engine.environments.outside import Endpoint, Graded, OutsideAgent
from training.engine.environments.own_python import OwnPython
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task

SECONDS = 1800.0
"""Of an episode; what the agent has done by then is graded. A task's `facts.seconds` overrides it."""
STEPS = 50
"""Calls of the model; a task's `facts.max_steps` overrides it."""

NO_CONTROL_SEQUENCES = "set enable-bracketed-paste off\n"
"""For the shell, whose output the model reads."""


class OpenHands(OutsideAgent):
    """An agent with a terminal and a file editor, without a condenser: its conversation goes on from call to call."""

    name: ClassVar[str] = "openhands"
    does: ClassVar[str] = "Works on a task folder with a terminal and an editor, by the OpenHands SDK."
    at_once: ClassVar[int] = 4
    python: ClassVar[OwnPython] = OwnPython(
        "RECKONER_OPENHANDS_PYTHON",
        (3, 12),
        ("openhands-sdk", "openhands-tools"),
        "openhands-sdk==1.58.2 openhands-tools==1.58.2",
    )

    def __init__(self) -> None:
        self._program = Program()

    def find_missing(self) -> list[str]:
        return self.python.find_missing()

    def find_faults(self, task: Task) -> list[str]:
        faults = find_task_faults(task)
        for name in ("seconds", "max_steps"):
            given = task.facts.get(name, 1)
            if isinstance(given, bool) or not isinstance(given, int | float) or given <= 0:
                faults.append(f"facts.{name}: {given!r} must be a number above 0")
        return faults

    def act(self, task: Task, seed: int, endpoint: Endpoint) -> Graded:
        with tempfile.TemporaryDirectory(prefix="openhands-") as place:
            workspace, home, log = lay_out(task, Path(place)), Path(place, "home"), Path(place, "log")
            home.mkdir()
            Path(home, ".inputrc").write_text(NO_CONTROL_SEQUENCES)
            episode: dict[str, Any] = {
                **endpoint._asdict(),
                "instruction": task.text,
                "workspace": str(workspace),
                "home": str(home),
                "log": str(log),
                "max_steps": int(task.facts.get("max_steps", STEPS)),
            }
            status = self._program.run(self.python.path, episode, float(task.facts.get("seconds", SECONDS)))
            if status:
                raise EnvironmentFault(f"the OpenHands episode ended with {status}: {last_line(log.read_bytes())}")
            return grade(task, workspace)
