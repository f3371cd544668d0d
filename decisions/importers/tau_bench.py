"""Results of tau-bench, a list of runs, each with its messages and its reward, and of tau2-bench.

A run is an episode. Every message of the assistant is a decision over the conversation so far: its tool calls, or else
its words. A tool's answer is a step of the decision that called it, and so is what
follows the last decision.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json, refuse_file
from decisions.importers.records import (
    LONGEST_NAME,
    Found,
    Imported,
    ImportedFeedback,
    Place,
    Reading,
    Record,
    Refused,
    canonical,
    from_text,
    list_of,
    make_decision,
    make_feedback,
    make_step,
    number_of,
    object_of,
    read_each,
    text_of,
)
from decisions.importers.tau2 import as_run, is_simulation, read_results
from decisions.ingest.step_schemas import StepIn

ROLES = ("system", "user", "assistant", "tool")
BETWEEN_MESSAGES = dt.timedelta(milliseconds=1)  # order within a run, of which the file gives no times


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    for file in files:
        try:
            records = read_results(file, reading)
        except OSError as error:
            yield refuse_file(file, error)
            continue
        found = read_json(file, reading) if records is None else records
        yield from read_each(found, lambda record: read_run(record, reading))


def read_run(record: Record, reading: Reading) -> list[Found]:
    """One run's decisions in order, the reward on its episode last. Raises Refused or msgspec.ValidationError."""
    run = object_of(record.value, "the run")
    if is_simulation(run):
        run = as_run(run)
    messages = [object_of(message, "traj") for message in list_of(run.get("traj"), "traj")]
    for index, message in enumerate(messages):
        if message.get("role") not in ROLES:
            raise Refused(f"traj[{index}].role", f"{message.get('role')!r} is not one of {', '.join(ROLES)}")
    reward = number_of(run.get("reward"))
    if reward is None:
        raise Refused("reward", "is missing or not a number")
    info = run.get("info") if isinstance(run.get("info"), dict) else {}
    assert isinstance(info, dict)
    task = info.get("task") if isinstance(info.get("task"), dict) else {}
    assert isinstance(task, dict)
    # Two files may hold the same task and trial, run with different models: the messages tell them apart.
    episode = f"task-{run.get('task_id')}-trial-{run.get('trial', 0)}-{_digest(reading, messages)}"
    start = reading.moment(run.get("observed_at"))
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    if not turns:
        raise Refused("traj", "has no message of the assistant, so nothing was decided")
    found: list[Found] = []
    for number, (index, following) in enumerate(zip(turns, [*turns[1:], len(messages)], strict=True)):
        moment = start + index * BETWEEN_MESSAGES
        action, completion = _action(messages[index], f"traj[{index}]")
        last = number == len(turns) - 1
        decision = make_decision(
            {
                "id": reading.mint(moment, episode, str(index)),
                "agent": reading.agent_for(run.get("agent")),
                "state": {"messages": messages[:index]},
                "action": action,
                "completion": completion,
                "episode": episode,
                "step_number": number,
                "unit": str(task.get("user_id") or "")[:LONGEST_NAME] or None,
                "external_id": f"{episode}-{index}",
                "policy_name": reading.policy_for(run.get("policy")),
                "observed_at": moment,
            }
        )
        steps = _steps(messages, index, following, action, start, last=last)
        size = record.size // len(turns) + sum(len(text_of(message.get("content"))) for message in messages[:index])
        found.append(Imported(record.place, decision, steps, (), size))
    found += _rewards(reading, record.place, run, info, episode, start + len(messages) * BETWEEN_MESSAGES)
    return found


def _digest(reading: Reading, messages: list[dict[str, Any]]) -> str:
    """Eight letters that follow from the messages."""
    return reading.mint(dt.datetime.fromtimestamp(0, dt.UTC), canonical(messages)).hex[-8:]


def _action(message: dict[str, Any], name: str) -> tuple[list[dict[str, Any]] | str, str | None]:
    """The tool calls of a message, or else its words; and the text said beside (or instead of) calls."""
    text = text_of(message.get("content"))
    calls = []
    for index, given in enumerate(list_of(message.get("tool_calls"), f"{name}.tool_calls")):
        place = f"{name}.tool_calls[{index}]"
        function = object_of(object_of(given, place).get("function"), f"{place}.function")
        arguments = from_text(function.get("arguments") or "{}")
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        call: dict[str, Any] = {"name": str(function.get("name")), "arguments": arguments}
        if given.get("id"):
            call["id"] = given["id"]
        calls.append(call)
    return calls or text, text or None


def _steps(
    messages: list[dict[str, Any]],
    index: int,
    following: int,
    action: list[dict[str, Any]] | str,
    start: dt.datetime,
    *,
    last: bool,
) -> tuple[StepIn, ...]:
    """Answers of tools to this decision's calls; after the last decision, also whatever else was said."""
    calls = {call.get("id"): call for call in action} if isinstance(action, list) else {}
    steps = []
    for at in range(index + 1, following):
        message = messages[at]
        moment = start + at * BETWEEN_MESSAGES
        if message["role"] == "tool":
            call = calls.get(message.get("tool_call_id"), {})
            result = text_of(message.get("content"))
            failed = result.startswith("Error")  # how the benchmark's environment says that a call went wrong
            steps.append(
                make_step(
                    {
                        "kind": "tool_call",
                        "name": str(message.get("name") or call.get("name") or ""),
                        "external_id": message.get("tool_call_id"),
                        "arguments": call.get("arguments"),
                        "result": message.get("content"),
                        "success": not failed,
                        "error": result if failed else "",
                        "started_at": moment,
                    }
                )
            )
        elif last:
            steps.append(
                make_step(
                    {"kind": "span", "name": message["role"], "result": message.get("content"), "started_at": moment}
                )
            )
    return tuple(steps)


def _rewards(
    reading: Reading, place: Place, run: dict[str, Any], info: dict[str, Any], episode: str, moment: dt.datetime
) -> list[ImportedFeedback]:
    """The run's reward, and the parts of it and the cost of the simulated user where the file has them."""
    values = {"reward": run["reward"], "user_cost": info.get("user_cost")}
    details = info.get("reward_info") if isinstance(info.get("reward_info"), dict) else {}
    assert isinstance(details, dict)
    inner = details.get("info") if isinstance(details.get("info"), dict) else {}
    assert isinstance(inner, dict)
    values |= {name: inner.get(name) for name in ("r_actions", "r_outputs")} | run.get("parts", {})
    return [
        make_feedback(
            reading,
            place,
            metric=metric,
            value=value,
            observed_at=moment,
            key=metric,
            episode=episode,
            source="code",
        )
        for metric, value in values.items()
        if number_of(value) is not None
    ]
