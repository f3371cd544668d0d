"""Results of tau2-bench in the shape of tau-bench's runs (decisions.importers.tau_bench): one object with
`simulations`, or each simulation by itself.

What only the simulated user saw, its own tools' calls and answers, is left out: the agent did not know it.

Source: tau2-bench 0.2, `tau2.data_model.simulation` and `tau2.data_model.message`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from decisions.importers.opening import open_utf8
from decisions.importers.reading import CHUNK, LONGEST_RECORD, Closing, find_end, read_values, refuse_file
from decisions.importers.records import (
    Reading,
    Record,
    Refusal,
    Refused,
    canonical,
    from_text,
    list_of,
    object_of,
)

LISTED = re.compile(rb'"simulations"\s*:\s*\[')
INFO = re.compile(rb'"info"\s*:\s*')
OVERLAP = 1 << 10
"""Bytes that are looked at again, as a name may lie on both sides of a chunk's end."""


class Listed(NamedTuple):
    """The beginning of a list of simulations. `at`, `line`: its place in bytes and lines; `info`: what stands before it
    and holds for all of them."""

    at: int
    line: int
    info: Any


def read_results(file: Path, reading: Reading) -> Iterator[Record | Refusal] | None:
    """Each simulation of a file, decoded by itself, so that one that is damaged leaves the others alone, and the file
    is never whole in memory; None where it is no such object. Raises OSError."""
    records = None
    with ExitStack() as stack:
        opened = stack.enter_context(open_utf8(file))
        if (listed := _find_list(opened)) is not None:
            records = _read_list(stack.pop_all(), opened, listed, file, reading)
    return records


def _read_list(
    stack: ExitStack, opened: BinaryIO, listed: Listed, file: Path, reading: Reading
) -> Iterator[Record | Refusal]:
    with stack:
        reading.advance(listed.at)
        try:
            opened.seek(listed.at)
            for record in read_values(opened, str(file), reading, line=listed.line):
                if isinstance(record, Record) and isinstance(record.value, dict):
                    record.value["info"] = listed.info
                yield record
        except OSError as error:
            yield refuse_file(file, error)


def _find_list(opened: BinaryIO) -> Listed | None:
    at, line, info = opened.tell(), 1, None
    kept = b""  # from `at` on
    first = True
    while chunk := opened.read(CHUNK):
        text = kept + chunk
        if first and text.lstrip()[:1] != b"{":
            return None
        first = False
        listed = LISTED.search(text)
        if info is None and (named := INFO.search(text, 0, listed.start() if listed else len(text))) is not None:
            info = at + named.end()
        if listed is not None:
            begin = listed.end() - 1  # the bracket
            return Listed(at + begin, line + text.count(b"\n", 0, begin), _read_info(opened, info))
        kept = text[-OVERLAP:]
        line += text.count(b"\n", 0, len(text) - len(kept))
        at += len(text) - len(kept)
    return None


def _read_info(opened: BinaryIO, at: int | None) -> Any:
    """None where it cannot be read."""
    if at is None:
        return None
    size, closing = CHUNK, Closing()
    while size <= LONGEST_RECORD:
        opened.seek(at)
        content = opened.read(size)
        text, ended = content.decode(errors="replace").lstrip(), len(content) < size
        if (end := find_end(text, 0, ended=ended, closing=closing)) is not None:
            return from_text(text[:end])
        size = LONGEST_RECORD + 1 if ended else 4 * size
    return None


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
