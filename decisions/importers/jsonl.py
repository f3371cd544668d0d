"""Reckoner's own format as JSON lines or a JSON list: the fields of POST /decisions, with feedback and steps.

A line with an `action` is a decision; `feedback` and `steps` on it are lists. A line with a `metric` is feedback on a
`decision_id`, a `unit`, or an `episode` by its name.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from decisions.importers.reading import read_json_files
from decisions.importers.records import (
    Found,
    Imported,
    ImportedFeedback,
    Place,
    Reading,
    Record,
    Refusal,
    Refused,
    canonical,
    list_of,
    make_decision,
    make_step,
    object_of,
    read_each,
    try_read,
)
from decisions.ingest.decoding import fault_of, has_answer_id, with_plain_id
from decisions.ingest.schemas import FeedbackIn
from decisions.ingest.step_schemas import StepIn
from workspaces.storage.ids import uuid7_time


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    return read_each(read_json_files(files, reading), lambda record: read_line(record, reading))


def read_line(record: Record, reading: Reading) -> list[Found]:
    """Raises Refused or msgspec.ValidationError."""
    fields = object_of(record.value, "the line")
    if "metric" in fields and "action" not in fields:
        return [_read_feedback(fields, record.place, reading, None, reading.observed_at)]
    return read_decision(fields, record.place, reading, record.size)


def read_decision(fields: Mapping[str, Any], place: Place, reading: Reading, size: int) -> list[Found]:
    """The decision with its steps, and its feedback; what is wrong with one piece of feedback refuses that alone."""
    own = {name: value for name, value in fields.items() if name not in {"feedback", "steps"}}
    own["agent"] = reading.agent_for(fields.get("agent"))
    if own.get("policy_name") is None and own.get("model_version") is None and reading.policy is not None:
        own["policy_name"] = reading.policy
    given = own.get("id")
    if fields.get("observed_at") is not None or given is None:
        moment = reading.moment(fields.get("observed_at"))
        own["observed_at"] = moment
    else:
        moment = _time_of(given)
    if given is None:
        own["id"] = reading.mint(moment, canonical({k: v for k, v in fields.items() if k not in {"feedback", "steps"}}))
    decision = make_decision(own)
    assert isinstance(decision.id, uuid.UUID)
    steps = tuple(
        _read_step(step, f"steps[{index}]", reading, moment)
        for index, step in enumerate(list_of(fields.get("steps"), "steps"))
    )
    feedback: list[ImportedFeedback] = []
    others: list[Found] = []
    for item in list_of(fields.get("feedback"), "feedback"):
        found = try_read(place, _read_feedback, item, place, reading, decision.id, moment)
        if isinstance(found, Refusal):
            others.append(found)
        else:
            feedback.append(found)
    return [Imported(place, decision, steps, tuple(feedback), size), *others]


def _time_of(given: Any) -> dt.datetime:
    try:
        moment = uuid7_time(uuid.UUID(given))
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused("id", f"{given!r} is not a uuid7") from error
    if moment is None:
        raise Refused("id", f"{given!r} is not a uuid7; other ids go to external_id")
    return moment


def _read_step(given: Any, name: str, reading: Reading, moment: dt.datetime) -> StepIn:
    """A step without a time began when its decision was made."""
    step = dict(object_of(given, name))
    step["started_at"] = reading.moment(step["started_at"], f"{name}.started_at") if step.get("started_at") else moment
    try:
        return make_step(step)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise Refused(f"{name}.{fault.field}", fault.reason) from error


def _read_feedback(
    given: Any, place: Place, reading: Reading, decision_id: uuid.UUID | None, moment: dt.datetime | None
) -> ImportedFeedback:
    """`moment` stands in for a missing observed_at: that of the decision it is on."""
    fields = dict(object_of(given, "feedback"))
    if has_answer_id(fields):
        fields = with_plain_id(fields)
    episode = fields.pop("episode", None)
    if decision_id is not None:
        fields["decision_id"] = str(decision_id)
    if episode is not None and not isinstance(episode, str):
        raise Refused("feedback.episode", "is not a name")
    observed = fields.get("observed_at")
    at = reading.moment(observed) if observed is not None or moment is None else moment
    target = f"{fields.get('decision_id')}\0{fields.get('unit')}\0{episode}"
    if fields.get("id") is None:
        fields["id"] = reading.mint(at, "feedback", target, canonical(given))
    fields["observed_at"] = at
    feedback = msgspec.convert({k: v for k, v in fields.items() if v is not None}, FeedbackIn)
    if episode is not None and (feedback.decision_id or feedback.unit or feedback.episode_id):
        raise Refused("feedback.episode", "give one target")
    assert feedback.id is not UNSET
    return ImportedFeedback(place, feedback, episode)
