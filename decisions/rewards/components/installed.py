"""Components of packages that the operator installed, by the entry point group `reckoner.reward_components`. PURE.

A package names one or more objects there, each a Component or a sequence of them. They are loaded once in a process.
What is broken is refused with its package and the reason, and never in the way of another.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args

from decisions.rewards.components.component import Component, Horizon, Scope
from decisions.rewards.components.facts import ComponentError, Facts, Group

GROUP = "reckoner.reward_components"
_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """`package` is the distribution's name, `entry_point` the name that it gave there."""

    package: str
    entry_point: str
    reason: str

    def __str__(self) -> str:
        return f"{self.package}, entry point {self.entry_point!r}: {self.reason}"


def prefix_of(package: str) -> str:
    """What the names of a package's components begin with: `acme-rewards` has `acme_rewards.`."""
    return re.sub(r"[-_.]+", "_", package).lower() + "."


def faults(component: Any, package: str) -> list[str]:
    """What is wrong with an object that a package offers as a component; empty where it may be used."""
    if not isinstance(component, Component):
        return [f"{type(component).__name__} is not a Component"]
    name, prefix = component.name, prefix_of(package)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.startswith(prefix):
        return [f"the name {name!r} must be {prefix} and small letters, digits or _, such as {prefix}latency"]
    found = []
    bounds = (component.low, component.high)
    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in bounds) or bounds[0] >= bounds[1]:
        found.append(f"{name}: low {bounds[0]} and high {bounds[1]} must be finite, low below high")
    if component.horizon not in get_args(Horizon):
        found.append(f"{name}: the horizon {component.horizon!r} must be one of {', '.join(get_args(Horizon))}")
    if component.scope not in get_args(Scope):
        found.append(f"{name}: the scope {component.scope!r} must be one of {', '.join(get_args(Scope))}")
    if unknown := sorted(set(component.reads) - set(get_args(Group))):
        found.append(f"{name}: it reads {', '.join(unknown)}; there are {', '.join(get_args(Group))}")
    if not _takes_facts_and_parameters(component.function):
        found.append(f"{name}: its function must take two arguments, the facts and the parameters")
    found += [f"{name}: {fault}" for fault in component.parameter_faults(component.parameters)]
    return found or _tried(component)


def _takes_facts_and_parameters(function: Any) -> bool:
    try:
        inspect.signature(function).bind(Facts(), {})
    except (TypeError, ValueError):
        return False
    return True


def _tried(component: Component) -> list[str]:
    """What happens with a decision of which nothing is known."""
    try:
        value = component.function(Facts(), component.parameters)
    except ComponentError:
        return []
    except Exception as error:  # noqa: BLE001 - somebody else's code; whatever it raises is the reason of the refusal
        return [f"{component.name}: without any facts it raises {type(error).__name__}: {error}"]
    if value is None or (isinstance(value, (int, float)) and component.low <= value <= component.high):
        return []
    return [f"{component.name}: without any facts it gives {value!r}, neither None nor within low and high"]


def _load(entry_point: EntryPoint, package: str) -> tuple[list[Component], list[str]]:
    """The components of one entry point, or why it has none: all of them, or none."""
    try:
        offered = entry_point.load()
        components = list(offered) if isinstance(offered, (list, tuple)) else [offered]
        found = [fault for one in components for fault in faults(one, package)]
    except Exception as error:  # noqa: BLE001 - as above: an import may raise anything
        return [], [f"it cannot be loaded: {type(error).__name__}: {error}"]
    return ([], found) if found else (components, [])


def load_installed() -> tuple[dict[str, Component], list[Refusal]]:
    """The components of every installed package by name, and what was refused."""
    loaded: dict[str, Component] = {}
    refused = []
    for entry_point in sorted(entry_points(group=GROUP), key=lambda one: (str(one.dist and one.dist.name), one.name)):
        package = entry_point.dist.name if entry_point.dist else "unknown"
        components, reasons = _load(entry_point, package)
        names = [component.name for component in components]
        reasons += [
            f"{name} is defined twice" for name in sorted({n for n in names if n in loaded or names.count(n) > 1})
        ]
        if reasons:
            refused += [Refusal(package, entry_point.name, reason) for reason in reasons]
        else:
            loaded |= zip(names, components, strict=True)
    return loaded, refused


class Table(Mapping[str, Component]):
    """Our own components, and behind them those of installed packages, which are loaded when first asked for: a package
    imports this one, and must not be loaded while it is imported itself."""

    def __init__(self, own: Mapping[str, Component]) -> None:
        self.own = own

    @cached_property
    def _installed(self) -> tuple[dict[str, Component], list[Refusal]]:
        return load_installed()

    @property
    def refusals(self) -> list[Refusal]:
        """What installed packages offered in vain; shown by `manage.py check`."""
        return self._installed[1]

    def __getitem__(self, name: str) -> Component:
        return self.own[name] if name in self.own else self._installed[0][name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._installed[0]

    def __len__(self) -> int:
        return len(self.own) + len(self._installed[0])
