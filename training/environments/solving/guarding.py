"""Environments are code of packages: whatever they raise becomes one error, of one episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from training.engine.environments.protocol import EnvironmentFault
from training.errors import EnvironmentFailed
from workspaces.errors import ReckonerError

log = structlog.get_logger(__name__)


@contextmanager
def guarded(environment: str) -> Iterator[None]:
    """Raises EnvironmentFailed for what the environment of this name raises inside."""
    try:
        yield
    except EnvironmentFault as fault:
        raise EnvironmentFailed(f"The environment {environment} failed: {str(fault).rstrip('.')}.") from fault
    except ReckonerError:
        raise
    except Exception as error:
        log.exception("environment_failed", environment=environment)
        raise EnvironmentFailed(f"The environment {environment} failed: {type(error).__name__}.") from error
