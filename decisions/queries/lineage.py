"""Which decisions a model learnt from or was measured on.

Datasets and runs are a floor above; that floor registers its reader here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workspaces.models import Workspace

__all__ = ["UNUSED", "Use", "find_uses", "use_reader"]


@dataclass(frozen=True, slots=True)
class Use:
    """By runs that have made a version. `run`: the newest that learnt from the decision, else that measured on it."""

    in_training: bool = False
    in_validation: bool = False
    run: uuid.UUID | None = None


UNUSED = Use()
Reader = Callable[[Workspace, Sequence[uuid.UUID]], Mapping[uuid.UUID, Use]]
_readers: list[Reader] = []


def use_reader(reader: Reader) -> Reader:
    """Decorator: this tells the uses of decisions. There is one."""
    if _readers:
        raise ValueError("the uses of decisions have a reader already")
    _readers.append(reader)
    return reader


def find_uses(workspace: Workspace, ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, Use]:
    """The uses of those of `ids` that have any."""
    return _readers[0](workspace, ids) if _readers and ids else {}
