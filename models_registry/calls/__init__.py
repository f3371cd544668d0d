"""Calls of the gateway: records, lists, limits and cost."""
