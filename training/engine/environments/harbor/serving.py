"""A task's world over HTTP, in a container of its own beside the agent's: `python -m …harbor.serving TASK.json`.

    GET  /world    what the agent reads now, the actions on offer, and whether the episode is over
    GET  /tools    the tools, with JSON schemas of their arguments
    POST /call     {"action": one on offer}, or {"tool": name, "arguments": {…}}
    GET  /grade    the score in [0, 1] and whether the task is solved; ends the episode. It asks for the word that
                   `writing` puts among the tests (Authorization: Bearer …), which agents do not see

The facts of the task, the solution among them, stay in this process. A grader that fails is an answer 500 and never a
score. Standard library and the environments; no torch.
"""

from __future__ import annotations

import hmac
import json
import sys
import threading
from collections.abc import Mapping
from hashlib import sha256
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from training.engine.environments.local_http import BodyTooLarge, LocalHandler
from training.engine.environments.office.environment import Office
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task

PORT = 8000
OVER = "the work has ended"


def word_of(task: Task) -> str:
    """What the grade is asked for with; it follows from the facts, which agents do not know."""
    return sha256(msgspec.json.encode(task, order="deterministic")).hexdigest()


class WorldServer(ThreadingHTTPServer):
    """One episode of one task. Requests are answered one at a time. Raises ValueError for facts that no world can be
    made of, UnknownEnvironment, EnvironmentFault."""

    daemon_threads = True

    def __init__(self, task: Task, host: str = "127.0.0.1", port: int = 0) -> None:
        self.task, self.turn = task, threading.Lock()
        self.world: BaseEnvironment = find_environment(task.environment)()
        self.seen = self.world.reset(task, task.seed)
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def show(self) -> dict[str, Any]:
        return {"observation": self.seen, "actions": list(self.world.get_valid_actions()), "done": self.world.done}

    def call(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Takes an action or a tool's call. Raises ValueError that says what is wrong with it."""
        if self.world.done:
            raise ValueError(OVER)
        action, tool, arguments = given.get("action"), given.get("tool"), given.get("arguments", {})
        if isinstance(action, str):
            if action not in self.world.get_valid_actions():
                raise ValueError(f"{action!r} is not on offer; GET /world lists what is")
        elif isinstance(tool, str) and isinstance(arguments, dict):
            action = self.world.read_call(tool, arguments)
        else:
            raise ValueError('give {"action": text}, or {"tool": text, "arguments": object}')
        result = self.world.step(action)
        self.seen = result.observation
        said = {"text": self.world.last.text} if isinstance(self.world, Office) else {}
        error = result.info.get("error")
        return {**self.show(), **said, **({"error": error} if error is not None else {})}

    def grade(self) -> dict[str, Any]:
        """Raises EnvironmentFault."""
        self.world.done = True
        return {"reward": self.world.score, "solved": float(self.world.solved)}


class _Handler(LocalHandler):
    server: WorldServer

    def get(self) -> None:
        with self.server.turn:
            if self.path == "/world":
                self.answer(200, self.server.show())
            elif self.path == "/tools":
                self.answer(200, {"tools": [tool._asdict() for tool in self.server.world.tools()]})
            elif self.path == "/grade":
                self._grade()
            else:
                self.answer(404, {"error": "there are GET /world, GET /tools and POST /call"})

    def post(self) -> None:
        try:
            body = self.read_body()
        except BodyTooLarge as error:
            self.answer(413, {"error": str(error)})
            return
        if self.path != "/call":
            self.answer(404, {"error": "there are GET /world, GET /tools and POST /call"})
            return
        with self.server.turn:
            try:
                given = json.loads(body)
                if not isinstance(given, dict):
                    raise ValueError("the body must be a JSON object")
                self.answer(200, self.server.call(given))
            except ValueError as error:
                self.answer(400, {"error": str(error)})
            except EnvironmentFault as fault:
                self.answer(500, {"error": str(fault)})

    def _grade(self) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), word_of(self.server.task).encode()):
            self.answer(403, {"error": "only the verifier may ask for the grade"})
            return
        try:
            self.answer(200, self.server.grade())
        except EnvironmentFault as fault:
            self.answer(500, {"error": str(fault)})


def main(arguments: list[str]) -> None:
    task = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Task)
    with WorldServer(task, "0.0.0.0", PORT) as server:  # noqa: S104 - the agent's container asks from outside
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
