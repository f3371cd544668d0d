"""The demo's text and answers for one seed, in a file beside the ledger. Decisions hold only what a real app would
know.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from project.demo.passages import Passage, World, build_world


@lru_cache(maxsize=2)
def load_world(folder: Path, seed: int) -> World:
    """The world of this seed, read once from the installed packages and kept beside the ledger."""
    path = folder / f"world-{seed}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        world = build_world(seed)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(world), ensure_ascii=False), encoding="utf-8")
        draft.replace(path)
        return world
    plain = json.loads(path.read_text(encoding="utf-8"))
    return World(
        train=tuple(Passage(**row) for row in plain["train"]),
        heldout=tuple(Passage(**row) for row in plain["heldout"]),
        topics=tuple(plain["topics"]),
    )
