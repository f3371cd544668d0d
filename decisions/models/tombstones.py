"""Tombstones: what remains of an erased decision, feedback or step. PURE.

The content hash is the marker: no content has it, so the same id sent again is recognised as erased, without a second
column. `decisions.erasure.erasing` writes tombstones.
"""

from __future__ import annotations

import uuid

ERASED_HASH = bytes(32)
ERASED_TEXT = "erased"
ERASED_STATE = {"erased": "The content was erased at a person's request."}
PSEUDONYM_PREFIX = "erased:"

NOT_ERASED = r"content_hash <> '\x" + "00" * 32 + "'"
"""SQL, of the table without an alias or with one in front: rows that still say something."""


def tombstone_name(row: uuid.UUID) -> str:
    """What an erased episode is called: its own id, so that its names stay distinct."""
    return f"{PSEUDONYM_PREFIX}{row}"
