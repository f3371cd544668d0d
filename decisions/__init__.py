"""The ledger: decisions that agents made, what was observed afterwards, and what each was worth."""
