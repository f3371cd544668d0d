"""ToolBox: the tasks of a checkpoint, its `task_state`.

A task that has ended is a decision: its description was asked, its result (or error) is the answer. One that has not
ended is an episode without a decision. Either has an episode of its own, named after the task, in which the whole task
is kept as it stood, so that it can be written again (`decisions.exports.checkpoints`). `task_state` holds tasks by
their id, or lists of them by how they ended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from decisions.importers.records import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Found,
    Imported,
    ImportedEpisode,
    Place,
    Reading,
    Refusal,
    Repeat,
    canonical,
    make_decision,
    make_step,
    number_of,
    object_of,
    text_of,
    try_read,
)
from decisions.importers.spill import Spill
from decisions.ingest.step_schemas import EpisodeIn, StepIn

PREFIX = "task_state:"
"""Before the task's key: the name of its episode."""
STEP = "task {}"
ENDED = {
    "completed": "completed",
    "complete": "completed",
    "done": "completed",
    "success": "completed",
    "failed": "failed",
    "error": "failed",
}
"""How a task ended, by its status or the list that holds it."""


@dataclass(frozen=True, slots=True)
class Task:
    """`group` is the list that holds it, empty where `task_state` has it by its id. `name`: where it stands."""

    group: str
    key: str
    name: str
    told: Any

    @property
    def external_id(self) -> str:
        return f"{self.group}/{self.key}"[:LONGEST_NAME]


def read_tasks(checkpoint: Mapping[str, Any], place: Place, reading: Reading, spill: Spill) -> Iterator[Found]:
    """Each task as it stood; one that another checkpoint has told the same of is a repeat."""
    state = checkpoint.get("task_state")
    if state is None:
        return
    if not isinstance(state, Mapping):
        yield Refusal(place, "task_state", "is not an object")
        return
    agent = checkpoint.get("agent_name") or checkpoint.get("name")
    for task in _list_tasks(state):
        if not spill.first_time("task", str(agent or ""), task.external_id, canonical(task.told)):
            yield Repeat(place)
            continue
        yield try_read(place, _read_task, task, place, reading, agent, checkpoint.get("timestamp"))


def _list_tasks(state: Mapping[str, Any]) -> Iterator[Task]:
    for key, told in state.items():
        if not isinstance(told, list):
            yield Task("", key, f"task_state.{key}", told)
            continue
        for index, inner in enumerate(told):
            named = (inner.get("id") or inner.get("task_id")) if isinstance(inner, Mapping) else None
            yield Task(key, str(named or index), f"task_state.{key}[{index}]", inner)


def _read_task(task: Task, place: Place, reading: Reading, agent: Any, saved_at: Any) -> Imported | ImportedEpisode:
    told = object_of(task.told, task.name)
    ended = ENDED.get(str(task.group or told.get("status") or "").lower(), "")
    moment = _moment_of(told, ended, reading, task.name, saved_at)
    slug = reading.agent_for(agent, "agent_name")
    asked = text_of(told.get("description") or told.get("name") or task.key)
    facts = {
        "agent": slug,
        "episode": f"{PREFIX}{task.key}"[:LONGEST_NAME],
        "session": _session_of(told)[:LONGEST_NAME],
        "query": asked[:LONGEST_TEXT],
        "tasks_created": 1,
    }
    steps = tuple(_make_steps(task, told, ended, moment))
    size = len(canonical(told)) + 1000
    if not ended:
        return ImportedEpisode(place, msgspec.convert(facts | {"started_at": moment}, EpisodeIn), steps, size)
    answer = text_of(told.get("result"))
    if ended == "failed" and not answer:
        answer = f"Error: {text_of(told.get('error'))}"
    decision = make_decision(
        {
            "id": reading.mint(moment, "task", slug, task.external_id, ended),
            "agent": slug,
            "state": {"query": asked},
            "action": answer,
            "completion": answer[:LONGEST_TEXT],
            "episode": facts["episode"],
            "external_id": task.key[:LONGEST_NAME],
            "policy_name": reading.policy_for(told.get("model")),
            "observed_at": moment,
        }
    )
    facts |= {"final_response": answer[:LONGEST_TEXT], f"tasks_{ended}": 1}
    return Imported(place, decision, steps, size=size, episode=msgspec.convert(facts, EpisodeIn))


def _moment_of(told: Mapping[str, Any], ended: str, reading: Reading, name: str, saved_at: Any) -> dt.datetime:
    """When it ended; of one that has not, when it was made; else when the checkpoint was saved."""
    names = ("completed_at", "timestamp") if ended else ()
    for field in (*names, "started_at", "created_at"):
        if told.get(field):
            return reading.moment(told[field], f"{name}.{field}")
    return reading.moment(saved_at, f"{name}.completed_at")


def _session_of(told: Mapping[str, Any]) -> str:
    inner = told.get("metadata")
    return text_of(told.get("session_id") or (inner.get("session_id") if isinstance(inner, Mapping) else ""))


def _make_steps(task: Task, told: Mapping[str, Any], ended: str, moment: dt.datetime) -> Iterator[StepIn]:
    """The tool call of a task that is one, then the task as it stood."""
    known: dict[str, Any] = {"started_at": moment, "success": {"completed": True, "failed": False}.get(ended)}
    known["error"] = text_of(told.get("error")) if ended == "failed" else ""
    if ended and isinstance(told.get("tool_name"), str) and told["tool_name"]:
        call = {"kind": "tool_call", "name": told["tool_name"], "arguments": told.get("arguments")}
        yield make_step(
            known | call | {"result": told.get("result"), "duration_ms": number_of(told.get("duration_ms"))}
        )
    span = {"kind": "span", "name": STEP.format(ended or "created"), "external_id": task.external_id}
    yield make_step(known | span | {"attributes": dict(told)})
