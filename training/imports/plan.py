"""The plan of an import: the file and its options."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from decisions.importers.archives import ZIP
from decisions.importers.formats import FORMATS
from decisions.importers.reading import JSON_ENDINGS

LABELLED, DECISIONS = "labelled", "decisions"
LABELLED_ENDINGS = JSON_ENDINGS
FORMAT_CHOICES = [(row.name, row.summary) for row in FORMATS.values()]


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`what`: rows, of whichever kind, become the dataset `name` of `agent`. Decisions are read in a `format`; an
    `agent` stands before the one that the file names, and `create_agents` makes those that are not there.

    `leave_out_faulty`: rows without the lines that have faults are imported, where otherwise nothing is.
    `observed_at` and `policy` are for decisions that carry no time, and do not say who acted.
    """

    what: str
    agent: str = ""
    name: str = ""
    format: str = "jsonl"
    create_agents: bool = False
    observed_at: dt.datetime | None = None
    policy: str = ""
    leave_out_faulty: bool = False

    @property
    def endings(self) -> tuple[str, ...]:
        return LABELLED_ENDINGS if self.what == LABELLED else (*FORMATS[self.format].endings, ZIP)

    def as_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ImportPlan:
        """Other entries are left out."""
        return msgspec.convert({name: plain[name] for name in cls.__struct_fields__ if name in plain}, cls)
