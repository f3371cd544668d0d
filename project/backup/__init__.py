"""A backup of an instance in one file, and an instance made of one (docs/operations.md).

The file is a tar: `backup.json`, the database as a dump of pg_dump's own form, the secrets, and the artifacts where
they lie on this disk.
"""
