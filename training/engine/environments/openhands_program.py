"""The program that runs OpenHands' episodes, from the engine's side: started once, asked by every episode's thread.

openhands_driver.py is the other side, and says what the lines between them mean. No torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import IO, Any

from training.engine.environments.folders import last_line
from training.engine.environments.protocol import EnvironmentFault

DRIVER = Path(__file__).with_name("openhands_driver.py")
LOADS_WITHIN, STOPS_WITHIN = 300.0, 60.0
"""Seconds until the SDK is loaded, and until an episode that was killed has ended."""
AROUND = {
    "ALLOW_SHORT_CONTEXT_WINDOWS": "true",  # small models are what is trained here
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the package's own table of prices, and none from the network
    "OPENHANDS_SUPPRESS_BANNER": "true",
}


class Program:
    """Starts with its first episode, and ends with this object or the process. Threads may share it."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._running: _Running | None = None

    def run(self, python: str, episode: Mapping[str, Any], seconds: float) -> int:
        """The status of an episode (fields of the driver's `Episode`); 0 where its time was over. Raises
        EnvironmentFault where the program itself fails."""
        with self._starting:
            if self._running is None or self._running.fault is not None:
                self._running = _Running(python)
                weakref.finalize(self, self._running.end)
            running = self._running
        try:
            running.ready.result(LOADS_WITHIN)
            number, ended = running.start(episode)
            try:
                return ended.result(seconds)
            except TimeoutError:
                running.say({"stop": number})
                ended.result(STOPS_WITHIN)
                return 0
        except TimeoutError as error:
            running.end()
            raise EnvironmentFault("the OpenHands program does not answer") from error


class _Running:
    """One process of the driver."""

    def __init__(self, python: str) -> None:
        self.ready: Future[None] = Future()
        self.fault: EnvironmentFault | None = None
        self._ended: dict[int, Future[int]] = {}
        self._numbers = count()
        self._lock = threading.Lock()
        self._place = tempfile.TemporaryDirectory(prefix="openhands-")
        self._log = Path(self._place.name) / "log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that the operator named
                [python, "-P", str(DRIVER)],  # its folder has modules named like Python's own
                cwd=self._place.name,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "HOME": self._place.name,
                    "LANG": "C.UTF-8",
                    **AROUND,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        threading.Thread(target=self._listen, name="openhands", daemon=True).start()

    def start(self, episode: Mapping[str, Any]) -> tuple[int, Future[int]]:
        """Its number, and its status once it has ended."""
        number, ended = next(self._numbers), Future[int]()
        with self._lock:
            if self.fault is not None:
                raise self.fault
            self._ended[number] = ended
        self.say({"start": number, **episode})
        return number, ended

    def say(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            try:
                self._input.write(json.dumps(line).encode() + b"\n")
                self._input.flush()
            except (BrokenPipeError, ValueError) as error:  # a file that is closed raises ValueError
                raise EnvironmentFault("the OpenHands program has ended") from error

    def end(self) -> None:
        """Ends the program with its episodes. Its input's end does the same, where this process dies."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _listen(self) -> None:
        with self._output:
            for line in map(json.loads, self._output):
                if "ready" in line:
                    self.ready.set_result(None)
                else:
                    self._ended.pop(line["ended"]).set_result(line["status"])
        status = self._process.wait()
        said = last_line(self._log.read_bytes()) if self._log.exists() else ""  # gone where the engine ends
        fault = EnvironmentFault(f"the OpenHands program ended with {status}: {said}")
        with self._lock:
            self.fault = fault
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
        for future in (self.ready, *self._ended.values()):
            if not future.done():
                future.set_exception(fault)
        self._place.cleanup()
