"""Results of tau2-bench in the shape of tau-bench's runs (decisions.importers.tau_bench): one object with
`simulations`, or each simulation by itself.

What only the simulated user saw, its own tools' calls and answers, is left out: the agent did not know it.

Source: tau2-bench 0.2, `tau2.data_model.simulation` and `tau2.data_model.message`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decisions.importers.opening import open_utf8
from decisions.importers.reading import decode, find_end
from decisions.importers.records import (
    Place,
    Reading,
    Record,
    Refusal,
    Refused,
    canonical,
    from_text,
    list_of,
    object_of,
)

LARGEST_RESULTS = 256 << 20
SIMULATIONS = re.compile(r'"simulations"\s*:\s*\[')
INFO = re.compile(r'"info"\s*:\s*')
BETWEEN = re.compile(r"[\s,]*")


def read_results(file: Path, reading: Reading) -> Iterator[Record | Refusal] | None:
    """Each simulation of a file, decoded by itself, so that one that is damaged leaves the others alone; None where it
    is no such object. Raises OSError."""
    with open_utf8(file) as opened:
        begin = opened.tell()
        if opened.read(4096).lstrip()[:1] != b"{":
            return None
        opened.seek(begin)
        text = opened.read(LARGEST_RESULTS).decode(errors="replace")
    listed = SIMULATIONS.search(text)
    if listed is None:
        return None
    reading.advance(len(text))
    return _records(text, listed.end(), file)


def _records(text: str, at: int, file: Path) -> Iterator[Record | Refusal]:
    info = _read_info(text[:at])
    line, counted = 1, 0
    while True:
        at = BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        line, counted = line + text.count("\n", counted, at), at
        place = Place(str(file), line)
        if text[at : at + 1] == "]":
            return
        end = find_end(text, at, ended=True)
        if end is None:
            yield Refusal(place, "", "is not JSON, or is cut off; the rest of the file is not read")
            return
        record = decode(text[at:end].encode(), place)
        if isinstance(record, Record) and isinstance(record.value, dict):
            record.value["info"] = info
        yield record
        at = end


def _read_info(text: str) -> Any:
    """What the file says of all simulations; None where it cannot be read."""
    found = INFO.search(text)
    end = find_end(text, found.end(), ended=True) if found else None
    return from_text(text[found.end() : end]) if found and end else None


def is_simulation(value: Any) -> bool:
    return isinstance(value, dict) and "messages" in value and "reward_info" in value


def as_run(simulation: dict[str, Any]) -> dict[str, Any]:
    """Raises Refused."""
    info = _object(simulation.get("info"))
    environment, agent = _object(info.get("environment_info")), _object(info.get("agent_info"))
    told = object_of(simulation.get("reward_info") or {}, "reward_info")
    if told.get("reward") is None:
        ended = simulation.get("termination_reason")
        raise Refused("reward_info.reward", f"is missing: the run ended by {ended}, and was not graded")
    policy = environment.get("policy")
    system = [{"role": "system", "content": policy}] if isinstance(policy, str) and policy else []
    messages = [_message(one, index) for index, one in enumerate(list_of(simulation.get("messages"), "messages"))]
    parts = {f"reward_{str(name).lower()}": value for name, value in _object(told.get("reward_breakdown")).items()}
    return {
        "task_id": simulation.get("task_id"),
        "trial": simulation.get("trial") or 0,
        "reward": told["reward"],
        "parts": {**parts, "agent_cost": simulation.get("agent_cost")},
        "info": {"user_cost": simulation.get("user_cost")},
        "traj": [*system, *(message for message in messages if message is not None)],
        "observed_at": simulation.get("start_time") or simulation.get("timestamp"),
        "agent": environment.get("domain_name"),
        "policy": agent.get("llm"),
    }


def _message(given: Any, index: int) -> dict[str, Any] | None:
    """None for what the agent did not see."""
    message = object_of(given, f"messages[{index}]")
    role, calls = message.get("role"), list_of(message.get("tool_calls"), f"messages[{index}].tool_calls")
    if role == "tool":
        if message.get("requestor") == "user":
            return None
        return {"role": role, "tool_call_id": message.get("id"), "content": message.get("content")}
    if role == "user" and calls:
        return None
    read: dict[str, Any] = {"role": role, "content": message.get("content")}
    if calls:
        read["tool_calls"] = [_call(call, f"messages[{index}].tool_calls[{at}]") for at, call in enumerate(calls)]
    return read


def _call(given: Any, place: str) -> dict[str, Any]:
    call = object_of(given, place)
    function = {"name": call.get("name"), "arguments": canonical(call.get("arguments") or {})}
    return {"id": call.get("id"), "type": "function", "function": function}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
