"""Reads runs for pages, the API and a terminal: curves, samples, progress."""
