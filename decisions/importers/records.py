"""What a format's reader returns: decisions with their steps and feedback, and refusals with their place. PURE.

An id follows from the event's time and its name in its own system. Reading the same file again gives the same ids, and
the ledger recognises the repeats.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import msgspec

from decisions.ingest.decoding import SHARES, fault_of
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.ingest.step_schemas import EpisodeIn, StepIn
from workspaces.storage.ids import uuid7_of

P = ParamSpec("P")
T = TypeVar("T")

EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LONGEST_SLUG = 63
LONGEST_NAME = 200
LONGEST_TEXT = 200_000
PROBABILITY_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record began: the file as the reader was told it, the line counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value (or row) of a file, and the bytes it took there."""

    place: Place
    value: Any
    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is not taken over; the rest of the file is."""

    place: Place
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.field}: {self.reason}" if self.field else f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A record that another one of the same import holds as well: overlap, left out."""

    place: Place


@dataclass(frozen=True, slots=True)
class ImportedFeedback:
    """Feedback whose episode, if it has one, is still a name.

    With `episode_first` the target may be either: the episode of that name where there is one, or else the decision.
    """

    place: Place
    feedback: FeedbackIn
    episode: str | None = None
    episode_first: bool = False


@dataclass(frozen=True, slots=True)
class Imported:
    """One decision with what belongs to it; `size` is about what it takes in memory, in bytes.

    Its steps have no ids yet: those follow from the decision and their order. `system`: the system prompt under which
    it was made, "" where the file tells none.
    """

    place: Place
    decision: DecisionIn
    steps: tuple[StepIn, ...] = ()
    feedback: tuple[ImportedFeedback, ...] = ()
    size: int = 0
    episode: EpisodeIn | None = None
    system: str = ""


@dataclass(frozen=True, slots=True)
class ImportedEpisode:
    """An episode in which nothing was decided yet, with its steps, which have no ids yet. `facts` has its time."""

    place: Place
    facts: EpisodeIn
    steps: tuple[StepIn, ...] = ()
    size: int = 0


Found = Imported | ImportedEpisode | ImportedFeedback | Refusal | Repeat


class Refused(ValueError):
    """Raised inside a reader; becomes a Refusal with the record's place."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def ignore_bytes(count: int) -> None:
    """Where nobody watches the progress."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader is told. `agent` overrides what the file names; `observed_at` and `policy` are for records that
    carry no time, and do not say who acted.

    `name` is the format's, `workspace` any text that differs between workspaces: both go into the ids. `advance` is
    told how many bytes were read since the last call.
    """

    name: str
    workspace: str
    now: dt.datetime
    agent: str | None = None
    observed_at: dt.datetime | None = None
    policy: str | None = None
    advance: Callable[[int], None] = field(default=ignore_bytes)

    def agent_for(self, named: Any, name: str = "agent") -> str:
        """The slug of the agent that decided. Raises Refused where neither the file nor the command names one."""
        if self.agent is not None:
            return self.agent
        if isinstance(named, str) and (slug := slug_of(named)):
            return slug
        raise Refused(name, "names no agent; give --agent")

    def policy_for(self, named: Any) -> str:
        """Who acted: as the file says, else as the command says, else the format's name."""
        name = named if isinstance(named, str) else ""
        return (name or self.policy or self.name)[:LONGEST_NAME]

    def moment(self, given: Any, name: str = "observed_at") -> dt.datetime:
        """When it happened, in UTC. Raises Refused for what is no time, for the future, and for none at all."""
        if given is None or given == "":
            if self.observed_at is None:
                raise Refused(name, "the record has no time; give one with --observed-at")
            return self.observed_at
        moment = parse_moment(given, name)
        if not EARLIEST <= moment <= self.now + dt.timedelta(hours=1):
            raise Refused(name, f"{moment.isoformat()} is before 1970 or in the future")
        return moment

    def mint(self, moment: dt.datetime, *parts: str) -> uuid.UUID:
        return uuid7_of(moment, "\0".join([self.workspace, self.name, *parts]).encode())


def slug_of(name: str) -> str:
    """`Support bot` as `support-bot`; empty where no letter or digit is left."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:LONGEST_SLUG].strip("-_")


def parse_moment(given: Any, name: str) -> dt.datetime:
    """An ISO 8601 time; one without an offset is UTC. Raises Refused."""
    try:
        moment = dt.datetime.fromisoformat(given)
    except (TypeError, ValueError) as error:
        raise Refused(name, f"{given!r} is not an ISO 8601 time") from error
    try:
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except OverflowError as error:
        raise Refused(name, f"{given!r} is out of range") from error


def canonical(value: Any) -> str:
    """The same text for the same JSON value, whatever the order of its keys."""
    return msgspec.json.encode(value, order="deterministic").decode()


def number_of(value: Any) -> float | None:
    """A finite number that is no truth value, or None."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) < 1e300
    return float(value) if good else None


def count_of(value: Any) -> int | None:
    """A count of tokens or calls, or None where there is none (or a nonsensical one)."""
    number = number_of(value)
    return int(number) if number is not None and 0 <= number < 2**31 else None


def object_of(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(name, "is not an object")
    return value


def list_of(value: Any, name: str) -> list[Any]:
    """A list; nothing counts as an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(name, "is not a list")
    return value


def text_of(value: Any) -> str:
    """Text as it is, nothing as no text, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else canonical(value)


def from_text(value: Any) -> Any:
    """JSON inside a text (as tables and spans carry it); a text that is no JSON stays one."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value


def as_state(value: Any, name: str = "input") -> dict[str, Any]:
    """What was asked, as a state: an object is one already."""
    return value if isinstance(value, dict) else {name: value}


def make_decision(fields: Mapping[str, Any]) -> DecisionIn:
    """Probabilities a rounding error above 1 are 1. Raises msgspec.ValidationError with the field; what is None is left
    out."""
    given = {name: value for name, value in fields.items() if value is not None}
    given |= {name: as_probability(given[name]) for name in SHARES if name in given}
    if isinstance(given.get("alternatives"), list):
        given["alternatives"] = [
            {**other, "probability": as_probability(other["probability"])} if _has_probability(other) else other
            for other in given["alternatives"]
        ]
    return msgspec.convert(given, DecisionIn)


def as_probability(value: Any) -> Any:
    """1 for what is above it by no more than a sum of 32-bit numbers is wrong, anything else as it is."""
    return 1.0 if isinstance(value, float) and 1.0 < value <= 1.0 + PROBABILITY_ROUNDING else value


def _has_probability(other: Any) -> bool:
    return isinstance(other, dict) and "probability" in other


def make_step(fields: Mapping[str, Any]) -> StepIn:
    """Names and errors are cut to what the ledger holds; an error means failure. Raises msgspec.ValidationError."""
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    for name in ("name", "model", "external_id", "parent"):
        if isinstance(given.get(name), str):
            given[name] = given[name][:LONGEST_NAME]
    if given.get("error"):
        given |= {"success": False, "error": text_of(given["error"])[:LONGEST_TEXT]}
    return msgspec.convert(given, StepIn)


def make_episode(decision: DecisionIn, fields: Mapping[str, Any]) -> EpisodeIn:
    """What is said of a decision's episode; names and texts are cut. Raises msgspec.ValidationError."""
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    for name, longest in (("session", LONGEST_NAME), ("query", LONGEST_TEXT), ("final_response", LONGEST_TEXT)):
        if name in given:
            given[name] = text_of(given[name])[:longest]
    return msgspec.convert({**given, "agent": decision.agent, "episode": decision.episode}, EpisodeIn)


def make_feedback(
    reading: Reading,
    place: Place,
    *,
    metric: str,
    value: Any,
    observed_at: dt.datetime,
    key: str,
    decision_id: uuid.UUID | None = None,
    episode: str | None = None,
    source: str = "system",
) -> ImportedFeedback:
    """Feedback on one decision or on an episode by its name. `key` tells it from others of the same moment.

    Raises msgspec.ValidationError.
    """
    if not isinstance(value, bool | int | float | str):
        value = text_of(value)
    fields = {"metric": metric, "value": value, "source": source, "observed_at": observed_at}
    fields["id"] = reading.mint(observed_at, "feedback", str(decision_id or episode), metric, key, text_of(value))
    if decision_id is not None:
        fields["decision_id"] = decision_id
    return ImportedFeedback(place, msgspec.convert(fields, FeedbackIn), episode if decision_id is None else None)


def read_each(records: Iterable[Record | Refusal], read: Callable[[Record], Sequence[Found]]) -> Iterator[Found]:
    """Reads record by record; what a record raises becomes its refusal, and the next one is read."""
    for record in records:
        if isinstance(record, Refusal):
            yield record
            continue
        found = try_read(record.place, read, record)
        if isinstance(found, Refusal):
            yield found
        else:
            yield from found


def try_read(place: Place, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | Refusal:
    """What `read` returns, or the refusal of what it raised."""
    try:
        return read(*args, **named)
    except Refused as error:
        return Refusal(place, error.field, error.reason)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        return Refusal(place, fault.field, fault.reason)
