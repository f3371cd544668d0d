"""Clients of what serves models: today Reckoner's own model server."""
