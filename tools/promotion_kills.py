"""Kills a process at a named place of a promotion (F8), and says whether the registry still agrees with itself."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from models_registry.experiments import promotion
from models_registry.models import (
    Alias,
    AliasMove,
    AliasName,
    Arm,
    Experiment,
    ExperimentState,
    ModelVersion,
    Phase,
    RegisteredModel,
)
from models_registry.routing.router import Router
from models_registry.versions import services

Place = tuple[str, str, str]
"""A module or class of `OWNERS`, its function, and on which side of it ("before", "after")."""

OWNERS: dict[str, Any] = {"promotion": promotion, "services": services, "database": BaseDatabaseWrapper}
_SIDES = ("before", "after")
PLACES: tuple[Place, ...] = (
    *(("promotion", "prepare_to_serve", side) for side in _SIDES),
    *(("promotion", "move_alias", side) for side in _SIDES),
    *(("services", "_note_move", side) for side in _SIDES),
    *(("promotion", "record_look", side) for side in _SIDES),
    *(("promotion", "drop_alias", side) for side in _SIDES),
    *(("promotion", "end_experiment", side) for side in _SIDES),
    *(("database", "_commit", side) for side in _SIDES),
)


def die_while(
    work: Callable[[], object], place: Place, owners: Mapping[str, Any] = OWNERS, *, passing: int = 0
) -> bool:
    """Runs `work` in a fork of this process, which kills itself at the place, that of `owners`, after it has come by
    `passing` times; False where it did not come by so often.

    This process must not be in a transaction: its connections are closed, so that the fork has none of them.
    """
    if transaction.get_connection().in_atomic_block:
        raise RuntimeError("a fork would share the connection of this transaction")
    connections.close_all()
    child = os.fork()
    if child == 0:  # nothing of this process's own clean-up may run in it
        try:
            # Where an event loop runs in this thread (Playwright's), a fork, in which it does not, finds connections
            # that were made before it. They are this process's: the fork forgets them, and connects anew.
            for wrapper in connections.all(initialized_only=True):
                wrapper.connection = None
            _arm(owners[place[0]], place[1], place[2], passing)
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _arm(owner: Any, name: str, side: str, passing: int) -> None:
    real, left = getattr(owner, name), itertools.count(passing, -1)

    def dies(*given: Any, **named: Any) -> Any:
        last = next(left) == 0
        if last and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*given, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, dies)


def find_disagreements(model: RegisteredModel, before: ModelVersion, tried: ModelVersion) -> list[str]:
    """What does not fit together after `tried` was to replace `before`: either all of it happened, or nothing."""
    found = []
    champions = [alias.version for alias in Alias.objects.filter(registered_model=model, name=AliasName.CHAMPION)]
    if champions not in ([before], [tried]):
        return [f"the champions are {champions}"]
    promoted = champions == [tried]
    route = Router(model).route("a unit")
    running = Experiment.objects.filter(registered_model=model, state=ExperimentState.RUNNING)
    open_phases = Phase.objects.filter(experiment__registered_model=model, ended_at__isnull=True)
    if promoted:
        if route.version != tried or route.phase is not None:
            found.append(f"the router gives {route.version}")
        if running.exists() or open_phases.exists():
            found.append("an experiment goes on")
        if Alias.objects.filter(version=tried, name=AliasName.CHALLENGER).exists():
            found.append("the champion is a challenger")
    else:
        if route.phase is None or {route.version, route.other} != {before, tried} or route.arm not in Arm.values:
            found.append(f"the router gives {route.version} outside of the experiment")
        if running.count() != 1 or open_phases.count() != 1:
            found.append("the experiment has ended")
        if not Alias.objects.filter(version=tried, name=AliasName.CHALLENGER).exists():
            found.append("nobody is the challenger")
    moves = AliasMove.objects.filter(registered_model=model, name=AliasName.CHAMPION, after=tried).count()
    if moves != promoted:
        found.append(f"{moves} moves of the champion are written down")
    return found
