"""The part of an API's path that names a version: its ID, `filer:7` or `filer@champion`. MLflow's forms hold slashes,
so they stand in bodies only.
"""

from __future__ import annotations


class VersionConverter:
    regex = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[\w-]{1,63}(?::[0-9]{1,9}|@[a-z][a-z0-9-]{0,62})"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: object) -> str:
        return str(value)
