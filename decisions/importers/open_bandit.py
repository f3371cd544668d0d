"""The Open Bandit Dataset: what was shown to visitors of a shop, with the probability of it and whether it was clicked.

A row is a decision: which of the campaign's items stands at a position of the page. The columns of affinities, or
item_context.csv in the same folder, say how many items there are. Its policy and campaign follow from where it lies,
as in obd/bts/men/men.csv.

Source: Saito et al. 2021, https://arxiv.org/abs/2008.07146, and the files of Open Bandit Pipeline 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from decisions.importers.reading import read_csv
from decisions.importers.records import (
    Found,
    Imported,
    Reading,
    Record,
    Refusal,
    Refused,
    canonical,
    make_decision,
    make_feedback,
    read_each,
)

ITEM, CLICK, PROPENSITY = "item_id", "click", "propensity_score"
AFFINITY, ITEM_FEATURE = "user-item_affinity_", "item_feature_"
CONTEXT = "item_context.csv"
POLICIES = ("bts", "random")
NEEDED = ("timestamp", ITEM, "position", CLICK, PROPENSITY)


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    """Files of items are read beside those of impressions, and hold no decisions."""
    for file in files:
        if file.name.startswith(CONTEXT):
            reading.advance(file.stat().st_size)
            continue
        options = _read_items(file, reading)
        yield from read_each(read_csv(file, reading), lambda record: read_row(record, reading, file, options))  # noqa: B023


def _read_items(file: Path, reading: Reading) -> list[str]:
    """The items of item_context.csv in its folder, none where there is no such file."""
    context = file.with_name(CONTEXT)
    if not context.is_file():
        return []
    rows = [record for record in read_csv(context, reading) if not isinstance(record, Refusal)]
    return [row.value[ITEM] for row in rows if row.value.get(ITEM)]


def read_row(record: Record, reading: Reading, file: Path, items: Sequence[str]) -> list[Found]:
    """`items` where the row's own columns do not say them. Raises Refused or msgspec.ValidationError."""
    row: dict[str, str] = record.value
    if any(name.startswith(ITEM_FEATURE) for name in row) and CLICK not in row:
        raise Refused("", f"describes an item, not what was shown; name its file {CONTEXT}")
    for name in NEEDED:
        if not row.get(name):
            raise Refused(name, "is missing: the Open Bandit Dataset has " + ", ".join(NEEDED))
    affinities = {
        name.removeprefix(AFFINITY): _number(row, name) for name in row if name.startswith(AFFINITY) and row[name]
    }
    options = list(affinities) or list(items)
    if not options:
        raise Refused(ITEM, f"is known, but not what could be shown: neither {AFFINITY}0, … nor {CONTEXT}")
    if row[ITEM] not in options:
        raise Refused(ITEM, f"{row[ITEM]!r} is not one of the {len(options)} items")
    moment = reading.moment(row["timestamp"], "timestamp")
    clicked = _number(row, CLICK)
    state: dict[str, Any] = {
        "position": int(_number(row, "position")),
        "user": {name.removeprefix("user_feature_"): row[name] for name in row if name.startswith("user_feature_")},
        "affinities": {item: value for item, value in affinities.items() if value},
    }
    decision_id = reading.mint(moment, canonical(row))
    decision = make_decision(
        {
            "id": decision_id,
            "agent": reading.agent_for(file.name.split(".")[0]),
            "state": state,
            "options": options,
            "action": row[ITEM],
            "propensity": _number(row, PROPENSITY),
            "policy_name": reading.policy_for(next((name for name in POLICIES if name in file.parts[-3:]), None)),
            "observed_at": moment,
        }
    )
    reward = make_feedback(
        reading, record.place, metric="reward", value=clicked, observed_at=moment, key=CLICK, decision_id=decision_id
    )
    return [Imported(record.place, decision, (), (reward,), record.size)]


def _number(row: dict[str, str], name: str) -> float:
    try:
        return float(row[name])
    except ValueError as error:
        raise Refused(name, f"{row[name]!r} is not a number") from error
