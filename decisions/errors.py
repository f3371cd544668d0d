"""Errors of requests to the ledger."""

import uuid
from collections.abc import Collection

from workspaces.errors import Conflict, FieldFault, InvalidInput, NotFound, ReckonerError


class UnknownAgent(NotFound):
    code = "unknown_agent"


class OutdatedVersion(Conflict):
    """A change of an agent that is not based on its newest version."""

    code = "outdated_version"


class NothingToSuggest(Conflict):
    """The agent's actions leave nothing that the auto-labeler could suggest."""

    code = "nothing_to_suggest"


class JudgeNotCalibrated(Conflict):
    """Something would rest on a judge alone that was not shown to agree with people."""

    code = "judge_not_calibrated"


class CountChanged(Conflict):
    """More decisions would be labelled than the person or program has seen and agreed to."""

    code = "count_changed"


class IdConflict(Conflict):
    """The same id was sent before with other content. `ids`: which, where there are several items."""

    code = "id_conflict"
    ids: frozenset[uuid.UUID] = frozenset()


class IdNotUsable(InvalidInput):
    """The id stands in another workspace. Of what is there, and whether anything is, the answer says nothing."""

    ids: frozenset[uuid.UUID] = frozenset()

    @classmethod
    def of(cls, *, field: str = "id", ids: Collection[uuid.UUID] = ()) -> "IdNotUsable":
        error = cls("This ID cannot be used.", faults=[FieldFault(field, "cannot be used", "a new ID")])
        error.ids = frozenset(ids)
        return error


class Erased(ReckonerError):
    """What was recorded under this id was erased at a person's request, and is not taken again."""

    status = 410
    code = "erased"
    ids: frozenset[uuid.UUID] = frozenset()

    @classmethod
    def of(cls, ids: Collection[uuid.UUID], *, field: str = "id") -> "Erased":
        faults = [FieldFault(field, f"{row} was erased", "leave it out") for row in sorted(ids)]
        error = cls("What was recorded under this id was erased.", faults=faults)
        error.ids = frozenset(ids)
        return error

    @classmethod
    def named(cls, field: str) -> "Erased":
        """Of something that has no id of the client's: the name in `field`, which the answer does not repeat."""
        return cls(
            "What was recorded under this name was erased.", faults=[FieldFault(field, "was erased", "leave it out")]
        )


class InvalidTemplate(InvalidInput):
    code = "invalid_template"


class InvalidRewardSpec(InvalidInput):
    code = "invalid_reward_spec"


class DraftPublished(Conflict):
    """The draft of a reward spec is a version already."""

    code = "draft_published"
