"""Errors of an embedded instance; the commands print the message and exit with the code."""


class EmbeddedError(Exception):
    """An embedded service or the instance cannot run; the message says why and what to do."""

    exit_code = 1


class PortTakenError(EmbeddedError):
    """The port asked for is in use."""

    exit_code = 2


class AlreadyRunningError(EmbeddedError):
    """Another `up` runs on the same data."""

    exit_code = 3
