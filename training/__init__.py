"""Datasets from the ledger, runs that learn from them, evaluation, exports, imports, erasures and rehearsals.

`training.engine` does the learning in a process of its own without Django; the rest of this floor starts it and keeps
its results.
"""
