"""Readable names of what audit entries are about: `filer:3` for `model_version:01a1…`. Each floor says in its app's
`ready` how its own rows are named."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model

from workspaces.models import AuditEntry

_named: dict[str, tuple[type[Model], tuple[str, ...], Callable[[Any], str]]] = {}


def name_targets(kind: str, model: type[Model], *related: str, name: Callable[[Any], str] = str) -> None:
    """Targets `kind:ID` are rows of `model`; `related` are the rows that `name` reads of them."""
    _named[kind] = (model, related, name)


def find_names(entries: Iterable[AuditEntry]) -> dict[str, str]:
    """By target, of those whose row is still there. A statement for each kind among the entries."""
    wanted: dict[str, set[uuid.UUID]] = defaultdict(set)
    for entry in entries:
        kind, _, pk = entry.target.partition(":")
        if kind in _named:
            try:
                wanted[kind].add(uuid.UUID(pk))
            except ValueError:
                continue
    names = {}
    for kind, ids in wanted.items():
        model, related, name = _named[kind]
        found = model._default_manager.filter(pk__in=ids)
        for row in found.select_related(*related) if related else found:
            names[f"{kind}:{row.pk}"] = name(row)
    return names
