"""Talking to the instance's supervisord over its Unix socket."""

import http.client
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport

# What a call raises while supervisord is starting, stopping, or gone.
UNREACHABLE = (OSError, http.client.HTTPException, xmlrpc.client.ProtocolError)


@dataclass(frozen=True, slots=True)
class ProgramState:
    """One program: state is supervisord's word (RUNNING, BACKOFF, FATAL …); pid is 0 when it does not run."""

    name: str
    group: str
    state: str
    pid: int


class Control:
    """The few calls that `up` makes; each raises one of UNREACHABLE when supervisord does not answer."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    @property
    def _calls(self) -> Any:
        # A new connection for each call: after a failed one, supervisor's transport never works again.
        transport = SupervisorTransport(None, None, f"unix://{self._socket}")
        return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor

    def is_up(self) -> bool:
        try:
            return bool(self._calls.getState()["statename"] == "RUNNING")
        except UNREACHABLE:
            return False

    def start_group(self, group: str) -> None:
        """Start the group's programs, without waiting for them."""
        self._calls.startProcessGroup(group, False)

    def start_program(self, state: ProgramState) -> None:
        self._calls.startProcess(f"{state.group}:{state.name}", False)

    def list_programs(self) -> list[ProgramState]:
        return [
            ProgramState(info["name"], info["group"], info["statename"], info["pid"])
            for info in self._calls.getAllProcessInfo()
        ]
