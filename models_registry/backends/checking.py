"""Asks every backend whether it answers, and notes it on its row: the task `registry.watch` does so all the time.

A process's breaker knows only what the process has met. The row is what all know, and what pages show; `places` asks a
server last that is down.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import structlog
from django.db.models import Case, F, Value, When
from django.utils import timezone

from models_registry.backends.adapters import has_adapters, keep_adapters
from models_registry.backends.asking import CLIENTS, breaker_of
from models_registry.backends.endpoint import Endpoint, endpoint_of
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import Backend, BackendState

log = structlog.get_logger(__name__)

SECONDS = 1.0
AT_ONCE = 16


def check_backends() -> dict[str, int]:
    """All that are enabled, at once. Returns how many are up and down."""
    backends = list(Backend.objects.filter(enabled=True))
    if not backends:
        return {"up": 0, "down": 0}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:  # nothing in it asks the database
        errors = list(pool.map(find_error, [endpoint_of(backend) for backend in backends]))
    for backend, error in zip(backends, errors, strict=True):
        try:
            note_state(backend, error)
            if not error and has_adapters(backend):
                keep_adapters(backend)
        except Exception:  # the other backends, of other workspaces, still have their turn
            log.exception("backend_not_checked", backend=str(backend.id))
    down = sum(bool(error) for error in errors)
    return {"up": len(backends) - down, "down": down}


def find_error(endpoint: Endpoint) -> str:
    """Why it does not answer; "" where it does."""
    try:
        CLIENTS[endpoint.kind].check(endpoint, seconds=SECONDS)
    except (BackendUnavailable, BackendRefused) as error:
        return error.message
    except Exception as error:
        log.exception("backend_not_checked", backend=str(endpoint.backend))
        return f"{endpoint.name} could not be asked: {type(error).__name__}."
    breaker_of(endpoint).succeeded()
    return ""


def note_state(backend: Backend, error: str) -> None:
    """One statement, which leaves alone what an admin changes meanwhile."""
    state, now = BackendState.DOWN if error else BackendState.UP, timezone.now()
    Backend.objects.filter(id=backend.id).update(
        state=state,
        error=error[:500],
        checked_at=now,
        state_since=Case(When(state=state, then=F("state_since")), default=Value(now)),
    )
