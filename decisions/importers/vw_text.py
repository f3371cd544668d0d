"""Vowpal Wabbit's text format for contextual bandits, with labels `action:cost:probability`.

An event of `--cb_adf` is a block of lines, one an action, with a `shared` one before them; blank lines part the events.
An event of `--cb` is a line; the actions are all that the file names, from 0 where it names 0, else from 1. The cost is
minus the reward. Lines with other labels, of regression and classification, are refused: nothing was decided there.

Source: the wiki of Vowpal Wabbit, "Contextual Bandit algorithms" and "Input format".
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decisions.importers.opening import open_utf8
from decisions.importers.reading import CHUNK, LONGEST_RECORD, refuse_file
from decisions.importers.records import (
    LONGEST_NAME,
    Found,
    Imported,
    Place,
    Reading,
    Refused,
    as_probability,
    make_decision,
    make_feedback,
    try_read,
)

LABEL = re.compile(r"(\d+):([^:\s]+):([^:\s]+)")
SHARED = "shared"
LONGEST_LINE = 1 << 20
MOST_ACTIONS = 10_000
TOO_LONG = "\0"
"""Stands for a line or an event that is too long: it is refused, as the part of it that is short would be another."""
BETWEEN_EVENTS = dt.timedelta(milliseconds=1)  # order within a file, which gives no times
Features = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its labels as (action, cost, probability), its tag, and the features by namespace."""

    text: str
    shared: bool
    labels: tuple[tuple[int, float, float], ...]
    tag: str
    features: Features


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    for file in files:
        try:
            yield from _read_file(file, reading)
        except OSError as error:
            yield refuse_file(file, error)


def _read_file(file: Path, reading: Reading) -> Iterator[Found]:
    named = _find_actions(file)
    for number, (first, block) in enumerate(_blocks(file, reading)):
        place = Place(str(file), first)
        yield try_read(place, read_event, block, place, reading, named, number)


def _find_actions(file: Path) -> list[str]:
    """The actions that single lines name, from the first to the last number."""
    numbers: set[int] = set()
    for line in _lines(file, None):
        numbers.update(int(found[1]) for found in LABEL.finditer(line.split("|", 1)[0]) if len(found[1]) < 6)
    if not numbers:
        return []
    first = 0 if 0 in numbers else 1
    return [str(number) for number in range(first, min(max(numbers), MOST_ACTIONS) + 1)]


def _lines(file: Path, reading: Reading | None) -> Iterator[str]:
    """Each line without its end; one that is too long as TOO_LONG."""
    with open_utf8(file) as lines:
        while raw := lines.readline(LONGEST_LINE + 1):
            length = size = len(raw)
            line = raw.decode(errors="replace").replace("\0", "\ufffd").strip() if length <= LONGEST_LINE else TOO_LONG
            while size and not raw.endswith(b"\n"):
                raw = lines.readline(CHUNK)
                size = len(raw)
                length += size
            if reading is not None:
                reading.advance(length)
            yield line


def _blocks(file: Path, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """The lines of each event, with the number of the first."""
    block: list[tuple[int, str]] = []
    size = labelled = 0
    for number, line in enumerate(_lines(file, reading), start=1):
        if line and not (block and block[0][1] == TOO_LONG):
            block.append((number, line))
            size, labelled = size + len(line), labelled + bool(LABEL.match(line))
        if len(block) > MOST_ACTIONS or size > LONGEST_RECORD:
            if labelled < 2 or block[0][1].startswith(SHARED):
                block, size = [(block[0][0], TOO_LONG)], 0  # and nothing of what follows in it
            else:  # each line is an event
                yield from _events(block)
                block, size, labelled = [], 0, 0
        if block and not line:
            yield from _events(block)
            block, size, labelled = [], 0, 0
    if block:
        yield from _events(block)


def _events(block: list[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """An event with several actions has one label at most. Lines that are not of one event, or have labels of another
    kind, stand by themselves."""
    labelled = sum(bool(LABEL.match(line)) for _, line in block)
    bare = all(line.startswith(("|", "'", SHARED)) for _, line in block)
    if block[0][1].startswith(SHARED) or labelled == 1 or (not labelled and bare):
        yield block[0][0], [line for _, line in block]
    else:
        yield from ((number, [line]) for number, line in block)


def read_event(block: list[str], place: Place, reading: Reading, named: Sequence[str], number: int) -> Found:
    """Raises Refused or msgspec.ValidationError."""
    if TOO_LONG in block:
        most = f"{MOST_ACTIONS:,} actions, {LONGEST_RECORD >> 20} MiB, or {LONGEST_LINE >> 20} MiB in a line"
        raise Refused("", f"has more than {most}")
    lines = [_read_line(text) for text in block]
    shared: Features = {}
    if lines[0].shared:
        shared, lines = lines[0].features, lines[1:]
    if any(line.shared for line in lines):
        raise Refused(SHARED, "stands below an action; separate events by a blank line")
    chosen = [(at, label) for at, line in enumerate(lines) for label in line.labels]
    if len(chosen) != 1:
        why = "names no action that was taken" if not chosen else "names several actions that were taken"
        raise Refused("label", f"{why}: one action:cost:probability is needed")
    at, (action, cost, probability) = chosen[0]
    actions: dict[str, Features] = {}
    if len(block) == 1:
        options, taken, shared = list(named), str(action), lines[0].features
    else:
        options = _names(lines)
        actions, taken = {name: line.features for name, line in zip(options, lines, strict=True)}, options[at]
    probability = as_probability(probability)
    if not 0 < probability <= 1:
        raise Refused("label", f"the probability {probability} must be above 0, up to 1")
    moment = reading.moment(None) + number * BETWEEN_EVENTS
    decision_id = reading.mint(moment, *block)
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(None),
            "state": {"context": shared, **({"actions": actions} if actions else {})},
            "options": options,
            "action": taken,
            "propensity": probability,
            "policy_name": reading.policy_for(None),
            "observed_at": moment,
            "external_id": lines[at].tag[:LONGEST_NAME] if len(block) == 1 and lines[at].tag else None,
        }
    )
    reward = make_feedback(
        reading,
        place,
        metric="reward",
        value=0.0 if cost == 0 else -cost,
        observed_at=moment,
        key="cost",
        decision_id=decision_id,
    )
    return Imported(place, decision, (), (reward,), sum(map(len, block)))


def _read_line(text: str) -> Line:
    head, *spaces = text.split("|")
    if not spaces:
        raise Refused("", "is not Vowpal Wabbit's text: it has no |")
    words = head.split()
    tag = ""
    if words and (words[-1].startswith("'") or (not head.endswith((" ", "\t")) and not LABEL.fullmatch(words[-1]))):
        tag = words.pop().lstrip("'")
    shared = tag == SHARED or bool(words and words[0] == SHARED)
    labels = tuple(_label(word) for word in words if word != SHARED)
    features: Features = {}
    for space in spaces:
        name, inner = _namespace(space)
        features.setdefault(name, {}).update(inner)
    return Line(text, shared, labels, "" if tag == SHARED else tag, features)


def _label(word: str) -> tuple[int, float, float]:
    found = LABEL.fullmatch(word)
    if found is None:
        raise Refused("label", f"{word!r} is no action:cost:probability; without one nothing was decided")
    try:
        action, cost, probability = int(found[1]), float(found[2]), float(found[3])
    except ValueError as error:
        raise Refused("label", f"{word!r} is no action:cost:probability") from error
    if not abs(cost) < 1e300:
        raise Refused("label", f"the cost {found[2]} is not a number")
    return action, cost, probability


def _namespace(space: str) -> tuple[str, Features]:
    """Its name, "features" where it has none, and the features with their values."""
    words = space.split()
    name = words.pop(0).split(":")[0] if words and not space[0].isspace() else "features"
    features: Features = {}
    for word in words:
        feature, _, value = word.partition(":")
        try:
            features[feature] = float(value) if value else 1.0
        except ValueError:
            features[feature] = value
        if features[feature] != features[feature] or features[feature] in (float("inf"), -float("inf")):
            raise Refused(name, f"the value of {feature!r} is not a number")
    return name, features


def _names(lines: Sequence[Line]) -> list[str]:
    """By their tags where each has one of its own, else by their numbers from 1."""
    tags = [line.tag[:LONGEST_NAME] for line in lines]
    return tags if all(tags) and len(set(tags)) == len(tags) else [str(n) for n in range(1, len(lines) + 1)]
