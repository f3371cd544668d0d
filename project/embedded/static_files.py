"""Makes the copies of the static files that `up` serves: hashed names, compressed, once for each release."""

import hashlib
import importlib.util
from pathlib import Path

from project.embedded.layout import Layout, find_assets, write_private


def fingerprint(*sources: Path) -> str:
    """Says whether any of the files below `sources` is another one, by name, size and time."""
    digest = hashlib.sha256()
    for source in sources:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            found = path.stat()
            digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class StaticFiles:
    """One instance's copies, in var/static."""

    def __init__(self, layout: Layout) -> None:
        sidecar = importlib.util.find_spec("drf_spectacular_sidecar")
        places = (sidecar.submodule_search_locations if sidecar else None) or []
        self._now = fingerprint(find_assets("static"), *map(Path, places))
        self._kept = layout.var / "static" / ".collected"

    def are_collected(self) -> bool:
        return self._kept.exists() and self._kept.read_text(encoding="ascii") == self._now

    def note_collected(self) -> None:
        write_private(self._kept, self._now)
