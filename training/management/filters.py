"""Flags of commands that freeze datasets: which decisions are asked for."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from django.core.management.base import CommandParser

from training.rows.selection import Filters


def add_filters(parser: CommandParser) -> None:
    """A flag for each field of `Filters`, and --only-new."""
    parser.add_argument("--only-new", action="store_true", help="only decisions that no run has learnt from")
    parser.add_argument("--since", type=read_moment, help="only decisions recorded at or after this time")
    parser.add_argument("--until", type=read_moment, help="only decisions recorded before this time")
    parser.add_argument("--policy", help="who decided: a version such as filer:3, or an outside model's name")
    parser.add_argument("--unit", help="only decisions of this unit")
    parser.add_argument("--min-reward", type=float, help="for rewarded decisions: the smallest raw reward")
    parser.add_argument("--with-propensity", action="store_true", help="only decisions with a propensity")
    parser.add_argument(
        "--unjudged",
        action="store_true",
        help="for logged rows: also the newest decisions that nobody judged, at most as many as have a reward, for"
        " posterior",
    )
    parser.add_argument(
        "--incomplete", action="store_true", help="also answers that were cut, filtered or left by their client"
    )


def read_filters(options: Mapping[str, Any]) -> Filters:
    return Filters(**{field.name: options[field.name] for field in fields(Filters)})


def read_moment(text: str) -> dt.datetime:
    """Midnight UTC for a date. Raises ArgumentTypeError."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not an ISO 8601 time, such as 2026-11-01") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
