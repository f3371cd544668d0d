"""Writes what agents did in files of other systems. Training data is in `decisions.queries.export`."""
