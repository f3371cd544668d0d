"""The instance that `manage.py up` runs: its own PostgreSQL and Valkey, its processes, and the tests' servers.

Nothing here uses Django's settings, which read their secrets from here.
"""
