"""What goes wrong in a store. `models_registry.artifacts.opening` turns it into the registry's errors."""

from __future__ import annotations


class StoreError(Exception):
    """Base of these."""


class Corrupt(StoreError):
    """A manifest or a file is not what its digest says."""


class Unreachable(StoreError):
    """The server did not answer, or refused; the same call may work later."""


class BadAddress(StoreError):
    """The store's address cannot be used as it is, or what it needs is not installed."""
