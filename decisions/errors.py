"""What can be wrong with a request to the ledger."""

from workspaces.errors import Conflict, InvalidInput, NotFound


class UnknownAgent(NotFound):
    code = "unknown_agent"


class IdConflict(Conflict):
    """The same id was sent before with other content."""

    code = "id_conflict"


class InvalidTemplate(InvalidInput):
    code = "invalid_template"


class InvalidRewardSpec(InvalidInput):
    code = "invalid_reward_spec"
