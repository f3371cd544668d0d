"""Erases a person or an item from the ledger, previews it, and recognises erased names when they are sent again."""
