"""Erasing a person or an item from the ledger, counting what that touches, and the names that must not return."""
