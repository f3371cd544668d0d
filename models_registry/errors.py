"""Errors of requests to the registry."""

import uuid
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Self

from jobs.errors import Permanent
from workspaces.errors import Conflict, NotAllowed, NotFound, ReckonerError, TooManyRequests, Unavailable


class NoChampion(Conflict):
    code = "no_champion"


class ExperimentRunning(Conflict):
    code = "experiment_running"


class HoldoutRunning(Conflict):
    code = "holdout_running"


class HoldoutOver(Conflict):
    code = "holdout_over"


class GateNotPassed(Conflict):
    """The version's gates could answer, and do not show that it is better."""

    code = "gate_not_passed"


class NotAPolicy(Conflict):
    """A reward model or a sentence encoder was asked to act: to serve, to be tried, scored on a suite or exported."""

    code = "not_a_policy"


class NotStored(Conflict):
    """A remote model was asked for its weights: to be trained further, measured or exported."""

    code = "not_stored"


class AgentNotAllowed(NotAllowed):
    """The key may ask other agents only."""

    code = "agent_not_allowed"


class BudgetSpent(TooManyRequests):
    """The calls of the key have cost what they may in a day."""

    code = "budget_spent"


class BudgetReserved(TooManyRequests):
    """Open calls have reserved the rest of the key's budget."""

    code = "budget_reserved"


class UnknownVersion(NotFound):
    """A name such as `filer:7` or `filer@champion` that stands for no version."""

    code = "unknown_version"


class InUse(Conflict):
    """What others depend on was to be removed."""

    code = "in_use"


class NoExperiment(Conflict):
    code = "experiment_not_running"


class BackendUnavailable(Unavailable):
    """`backend`: of a chat, the one that was asked last; None for the instance's own model server, or nobody. `held`:
    for how many seconds the server had a question whose answer did not come, or is none, so that it may count it; None
    where it did no work."""

    code = "backend_unavailable"
    backend: uuid.UUID | None = None
    held: float | None = None

    def after(self, seconds: float | None) -> Self:
        """Notes `held`."""
        self.held = seconds
        return self


class BackendTooSlow(BackendUnavailable):
    """It did not answer in time."""


class BackendBusy(BackendUnavailable):
    """It has too much to do, or the account's limit is reached: 429. `wait`: seconds, as the server says."""

    status = 429
    code = "backend_busy"
    wait: int = 1


class BackendRefused(ReckonerError):
    """The model server said that what was asked of it is wrong. `backend` as of BackendUnavailable; `backends` and
    `costs`: of several questions, by their ids; what servers did for them before, None if nothing."""

    status = 422
    code = "backend_refused"
    backend: uuid.UUID | None = None
    backends: Mapping[uuid.UUID, uuid.UUID | None] = MappingProxyType({})
    costs: Mapping[uuid.UUID, Decimal | None] = MappingProxyType({})


class ChatRefused(BackendRefused):
    """What a backend said is wrong with a chat: the parameter and the code as it named them."""

    def __init__(self, message: str, *, param: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.param, self.reason = param, reason


class ArtifactCorrupt(ReckonerError):
    status = 500
    code = "artifact_corrupt"


class ArtifactRemoved(Conflict):
    """What the version's files held was collected, or erased."""

    code = "artifact_removed"


class VersionInUse(Conflict):
    code = "version_in_use"


class VersionRetired(Conflict):
    """A retired version was to get an alias or a deployment."""

    code = "version_retired"


class NotApproved(Conflict):
    """The workspace wants a person's approval before a version gets traffic, and nobody gave it."""

    code = "not_approved"


class CannotRevert(Conflict):
    """An alias whose last move cannot be taken back, or that was moved again meanwhile."""

    code = "cannot_revert"


class QuotaExceeded(ReckonerError, Permanent):
    """The workspace's artifacts leave no room. A job that meets it is dead at once: trying again makes no room."""

    status = 507
    code = "quota_exceeded"


class StoreUnavailable(Unavailable):
    """The server of the artifacts does not answer, or the store's address cannot be used."""

    code = "artifact_store_unavailable"
