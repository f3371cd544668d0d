"""Environments by name: the built-in ones, and those of packages that the operator installed. No torch.

A package names its environment as an entry point of the group `reckoner.environments`:

    [project.entry-points."reckoner.environments"]
    warehouse = "warehouse_tasks.environment:Warehouse"

Whoever starts a run picks a name; no code is ever sent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from training.engine.environments.protocol import BaseEnvironment

GROUP = "reckoner.environments"
BUILT_IN: Mapping[str, str] = {
    "business": "training.engine.environments.business:Business",
    "code": "training.engine.environments.code:Code",
    "equations": "training.engine.environments.equations:Equations",
    "gsm8k": "training.engine.environments.word_problems:WordProblems",
    "office": "training.engine.environments.office.environment:Office",
    "office-unseen": "training.engine.environments.office.environment:OfficeUnseen",
    "writing": "training.engine.environments.writing:Writing",
}
"""Name → "module:class"."""


class UnknownEnvironment(KeyError):
    """Nothing is installed under this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"unknown environment {self.name!r}; known: {', '.join(known_environments())}"


class BadEnvironment(RuntimeError):
    """A package's entry point cannot be used as an environment."""


def known_environments() -> list[str]:
    """All names, sorted. Reads what packages say, and imports none."""
    return sorted({*BUILT_IN, *find_installed(GROUP)})


def find_environment(name: str) -> type[BaseEnvironment]:
    """The class of this name; a built-in one before an installed one. Raises UnknownEnvironment, BadEnvironment."""
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        found: type[BaseEnvironment] = getattr(import_module(module), attribute)
    elif (point := find_installed(GROUP).get(name)) is not None:
        found = _load(point)
    else:
        raise UnknownEnvironment(name)
    return found


def find_package(name: str) -> str | None:
    """The package that an environment comes from; None for a built-in one. Raises UnknownEnvironment."""
    if name in BUILT_IN:
        return None
    if (point := find_installed(GROUP).get(name)) is None:
        raise UnknownEnvironment(name)
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]


def find_installed(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, of every installed package. They are read again when a package came to a
    folder of the path, or went: each reading opens a file of every package."""
    folders = tuple((folder, _changed_at(folder)) for folder in sys.path)
    return _read(group, folders)


@lru_cache(maxsize=8)
def _read(group: str, folders: tuple[tuple[str, int], ...]) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _changed_at(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


def _load(point: EntryPoint) -> type[BaseEnvironment]:
    try:
        found = point.load()
    except Exception as error:  # a package's own code, which may raise whatever it likes
        raise BadEnvironment(f"environment {point.name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, BaseEnvironment)):
        raise BadEnvironment(f"environment {point.name!r}: {point.value} is not a subclass of BaseEnvironment")
    if getattr(found, "name", None) != point.name:
        raise BadEnvironment(f"environment {point.name!r}: its class calls itself {getattr(found, 'name', None)!r}")
    return found
