"""Trajectories of SWE-agent (`.traj`): an agent's commands in a repository, and what they printed.

A trajectory is an episode, named by its file. Every step is a decision, the call `run` with its command, over the
conversation before it; what the command printed is a step of it. A report of SWE-bench in the same folder, with
`resolved_ids`, says which episodes solved their task: without one there is no reward.

Source: SWE-agent 1.1, `sweagent.types`, and its documentation, "Output files".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_json
from decisions.importers.records import (
    LONGEST_NAME,
    Found,
    Imported,
    ImportedFeedback,
    Place,
    Reading,
    Record,
    Refused,
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
from decisions.ingest.step_schemas import StepIn

TRAJECTORY = ".traj"
RUN = "run"
RESOLVED, UNRESOLVED = ("resolved_ids", "resolved"), ("unresolved_ids", "unresolved")
BETWEEN_STEPS = dt.timedelta(milliseconds=1)
"""Keeps the order of steps, which carry no time."""


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    """Trajectories first: a report's rewards belong to episodes that are there."""
    for file in sorted(files, key=lambda file: TRAJECTORY not in file.suffixes):
        yield from read_each(read_json(file, reading), partial(read_file, reading=reading, file=file))


def read_file(record: Record, reading: Reading, file: Path) -> list[Found]:
    """A trajectory, or a report of SWE-bench. Raises Refused or msgspec.ValidationError."""
    value = object_of(record.value, "the file")
    if "trajectory" in value:
        return _Trajectory(record, reading, file.name.split(TRAJECTORY)[0]).read()
    if any(isinstance(value.get(name), list) for name in RESOLVED):
        return list(_read_report(record.place, reading, value))
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
        raise Refused("trajectory_format", "is mini-swe-agent's; only SWE-agent's trajectories are read")
    raise Refused("trajectory", "is missing, so this is no trajectory of SWE-agent, and no report has resolved_ids")


class _Trajectory:
    def __init__(self, record: Record, reading: Reading, name: str) -> None:
        self.record, self.reading, self.name = record, reading, name[:LONGEST_NAME]
        self.start = reading.moment(record.value.get("observed_at"))
        self.steps = [
            object_of(step, f"trajectory[{index}]")
            for index, step in enumerate(list_of(record.value.get("trajectory"), "trajectory"))
        ]
        if not self.steps:
            raise Refused("trajectory", "has no steps, so nothing was decided")
        self.messages = self._first_messages()

    def read(self) -> list[Found]:
        found: list[Found] = [self._decision(step, index) for index, step in enumerate(self.steps)]
        info = self.record.value.get("info")
        info = info if isinstance(info, dict) else {}
        costs = info.get("model_stats") if isinstance(info.get("model_stats"), dict) else {}
        told = {"exit_status": info.get("exit_status"), "cost": number_of((costs or {}).get("instance_cost"))}
        end = self.start + len(self.steps) * BETWEEN_STEPS
        for metric, value in told.items():
            if value is not None:
                found.append(_feedback(self.reading, self.record.place, metric, value, end, self.name))
        return found

    def _first_messages(self) -> list[dict[str, Any]]:
        """What was said before the first step: system prompt, demonstrations and the task."""
        messages = []
        for entry in list_of(self.record.value.get("history"), "history"):
            if not isinstance(entry, dict):
                continue
            if entry.get("role") == "assistant" and not entry.get("is_demo"):
                break
            messages.append({"role": entry.get("role"), "content": entry.get("content")})
        return messages

    def _decision(self, step: dict[str, Any], index: int) -> Imported:
        """The step's own messages are what the model was shown; without them, all that was said so far."""
        shown = next((step[name] for name in ("query", "messages") if isinstance(step.get(name), list)), None)
        command, response = text_of(step.get("action")).rstrip("\n"), text_of(step.get("response"))
        moment = self.start + index * BETWEEN_STEPS
        call = {"name": RUN, "arguments": {"command": command}}
        messages = list(shown if shown is not None else self.messages)
        decision = make_decision(
            {
                "id": self.reading.mint(moment, self.name, str(index)),
                "agent": self.reading.agent_for("swe-agent"),
                "state": {"messages": messages},
                "action": [call] if command else response,
                "completion": response or None,
                "reasoning": text_of(step.get("thought")) or None,
                "episode": self.name,
                "step_number": index,
                "external_id": f"{self.name[: LONGEST_NAME - 8]}-{index}",
                "policy_name": self.reading.policy_for(self._model()),
                "observed_at": moment,
            }
        )
        seen = text_of(step.get("observation"))
        self.messages.append({"role": "assistant", "content": response})
        if seen:
            self.messages.append({"role": "user", "content": seen})
        steps: tuple[StepIn, ...] = ()
        if command:
            seconds = number_of(step.get("execution_time"))
            fields: dict[str, Any] = {"kind": "tool_call", "name": RUN, "arguments": call["arguments"], "result": seen}
            fields |= {"started_at": moment, "duration_ms": seconds * 1000 if seconds and seconds > 0 else None}
            steps = (make_step(fields),)
        size = sum(len(text_of(message)) for message in messages) + len(response) + len(seen)
        return Imported(self.record.place, decision, steps, (), size)

    def _model(self) -> str | None:
        """The model's name in the configuration that the run can be repeated with."""
        config = from_text(self.record.value.get("replay_config"))
        for name in ("agent", "model"):
            config = config.get(name) if isinstance(config, dict) else None
        named = config.get("name") if isinstance(config, dict) else None
        return named if isinstance(named, str) else None


def _read_report(place: Place, reading: Reading, report: dict[str, Any]) -> Iterator[ImportedFeedback]:
    moment = reading.moment(report.get("observed_at"))
    for names, reward in ((RESOLVED, 1.0), (UNRESOLVED, 0.0)):
        field = next((name for name in names if isinstance(report.get(name), list)), None)
        for episode in report[field] if field else ():
            yield _feedback(reading, place, "reward", reward, moment, text_of(episode)[:LONGEST_NAME])


def _feedback(
    reading: Reading, place: Place, metric: str, value: Any, moment: dt.datetime, episode: str
) -> ImportedFeedback:
    return make_feedback(
        reading, place, metric=metric, value=value, observed_at=moment, key=metric, episode=episode, source="code"
    )
