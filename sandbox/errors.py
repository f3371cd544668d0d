"""What the sandbox itself can fail with. None of these says anything about the program that was to run."""

from __future__ import annotations


class SandboxError(Exception):
    """The sandbox failed: a wall did not hold, or bubblewrap broke off."""


class SandboxMissing(SandboxError):
    """The sandbox cannot work on this machine yet: the text says what to install or to allow."""


class TestsInvalid(ValueError):
    """The tests of a program cannot decide anything: they do not run, or never call what they should test."""

    __test__ = False  # no test case, whatever pytest makes of the name
