"""Entries of the home page's lists, as plain values: what is stuck or needs a person, and what happened today."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from django.urls import reverse
from django.utils.text import slugify

from workspaces.models import Role, Workspace


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is stuck or needs a person: what, why, since when, and where to act on it.

    `role` is the least that may act; the page shows the action to others as a fact without a link.
    """

    station: str
    what: str
    why: str
    since: dt.datetime | None
    action: str = ""
    url: str = ""
    role: str = Role.VIEWER

    @property
    def key(self) -> str:
        """The same for the same thing at the next look, so that a swap keeps the focus."""
        return slugify(re.sub(r"[\d,+]+", "", f"{self.station} {self.what}"))[:60] + self.url[-6:].strip("/")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that moved today."""

    at: dt.datetime
    what: str
    by: str = ""
    url: str = ""
    tone: str = ""


def page_url(workspace: Workspace, name: str, *arguments: object) -> str:
    """The address of a page of the workspace."""
    return reverse(f"pages:{name}", args=[workspace.slug, *arguments])
