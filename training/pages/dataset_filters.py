"""Reads the filters of a dataset's form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.dateparse import parse_date

from training.datasets.freezing import REWARDED, find_faults
from training.models import DatasetKind
from training.rows.selection import Filters
from workspaces.errors import FieldFault, InvalidInput

FIELDS = ("since", "until", "policy", "unit", "min_reward", "with_propensity", "unjudged", "incomplete", "held_out")


@dataclass(frozen=True, slots=True)
class Asked:
    """`given` are the fields as they were entered; `held_out` the share of the rows, None for none."""

    filters: Filters
    held_out: float | None
    given: Mapping[str, str]


def read_filters(asked: Mapping[str, Any], *, kind: str) -> Asked:
    """Dates begin at midnight UTC; the share to hold out is a percentage. A least reward is read only of rewarded
    decisions, and `unjudged` only of logged ones, so that the kind can be changed. Raises InvalidInput with every
    fault."""
    given = {name: str(asked.get(name, "")).strip() for name in FIELDS}
    if kind not in REWARDED:
        given["min_reward"] = ""
    if kind != DatasetKind.LOGGED:
        given["unjudged"] = ""
    faults: list[FieldFault] = []
    share = _read_number(given, "held_out", faults)
    filters = Filters(
        since=_read_date(given, "since", faults),
        until=_read_date(given, "until", faults),
        policy=given["policy"] or None,
        unit=given["unit"] or None,
        min_reward=_read_number(given, "min_reward", faults),
        with_propensity=bool(given["with_propensity"]),
        unjudged=bool(given["unjudged"]),
        incomplete=bool(given["incomplete"]),
    )
    held_out = share / 100 if share else None
    faults = faults or find_faults(kind, filters, held_out=held_out, suggestions=False)
    if faults:
        raise InvalidInput("The dataset was not made.", faults=faults)
    return Asked(filters, held_out, {name: value for name, value in given.items() if value})


def _read_date(given: Mapping[str, str], name: str, faults: list[FieldFault]) -> dt.datetime | None:
    if not given[name]:
        return None
    try:
        day = parse_date(given[name])
    except ValueError:
        day = None
    if day is None:
        faults.append(FieldFault(name, f"{given[name][:40]!r} is not a date", "a date such as 2026-11-20"))
        return None
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)


def _read_number(given: Mapping[str, str], name: str, faults: list[FieldFault]) -> float | None:
    if not given[name]:
        return None
    try:
        return float(given[name])
    except ValueError:
        faults.append(FieldFault(name, f"{given[name][:40]!r} is not a number", "a number"))
        return None
