"""The agent `openhands`: an agent of the OpenHands SDK works on a task folder, and asks the weights in training.

The SDK needs Python 3.12 or newer and packages that cannot stand beside ours, so it runs as a program of an environment
of its own (openhands_driver.py), one for each episode. Its terminal can do what the engine's user can: run it in a
container or a machine of its own. No torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from training.engine.environments.folders import find_task_faults, grade, last_line, lay_out
from training.engine.environments.outside import Endpoint, Graded, OutsideAgent
from training.engine.environments.own_python import OwnPython
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.tasks import Task

DRIVER = Path(__file__).with_name("openhands_driver.py")
SECONDS = 1800.0
"""Of an episode; what the agent has done by then is graded. A task's `facts.seconds` overrides it."""
STEPS = 50
"""Calls of the model; a task's `facts.max_steps` overrides it."""
AROUND = {
    "ALLOW_SHORT_CONTEXT_WINDOWS": "true",  # small models are what is trained here
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the package's own table of prices, and none from the network
    "OPENHANDS_SUPPRESS_BANNER": "true",
}


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
            workspace = lay_out(task, Path(place))
            self._run(task, workspace, Path(place), endpoint)
            return grade(task, workspace)

    def _run(self, task: Task, workspace: Path, place: Path, endpoint: Endpoint) -> None:
        """Until the agent has finished, or its time is over. Raises EnvironmentFault where its program failed."""
        home, log = place / "home", place / "log"
        home.mkdir()
        asked: dict[str, Any] = {
            **endpoint._asdict(),
            "instruction": task.text,
            "workspace": str(workspace),
            "max_steps": int(task.facts.get("max_steps", STEPS)),
        }
        around = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", **AROUND}
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - the interpreter that the operator named
                [self.python.path, "-P", str(DRIVER)],  # its folder has modules named like Python's own
                cwd=workspace,
                env=around,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert process.stdin is not None
        try:
            # The pipe stays open: its end ends the program, also where this process dies.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdin.flush()
            status = process.wait(float(task.facts.get("seconds", SECONDS)))
        except subprocess.TimeoutExpired:
            status = 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        if status:
            raise EnvironmentFault(f"the OpenHands program ended with {status}: {last_line(log.read_bytes())}")
