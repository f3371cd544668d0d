"""Errors of requests to the training floor."""

from workspaces.errors import Conflict, InvalidInput, ReckonerError


class InvalidRun(InvalidInput):
    code = "invalid_run"


class InvalidPipeline(InvalidInput):
    code = "invalid_pipeline"


class EmptyDataset(InvalidInput):
    code = "empty_dataset"


class UnusableImport(InvalidInput):
    """A file of which nothing is taken in; the faults name their lines."""

    code = "unusable_import"


class RunOver(Conflict):
    code = "run_over"


class RehearsalUnderWay(Conflict):
    code = "rehearsal_under_way"


class PipelineUnderWay(Conflict):
    code = "pipeline_under_way"


class PipelineFailed(RuntimeError):
    """A pipeline ended without a version; the message is the reason."""


class EngineFailed(RuntimeError):
    """The engine process ended without a result; the message is its own last word."""


class EnvironmentFailed(ReckonerError):
    """An environment or its grader failed: that says nothing of the agent, and is never a score of 0."""

    status = 500
    code = "environment_failed"
