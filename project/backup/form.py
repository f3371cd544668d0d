"""What a backup's file holds, and under which names."""

from __future__ import annotations

import msgspec

from workspaces.errors import InvalidInput

ABOUT, DUMP = "backup.json", "database.dump"
SECRETS, ARTIFACTS, RUNS = "secrets", "artifacts/sha256", "runs"
FORM = 1


class About(msgspec.Struct, frozen=True):
    """The first member. `made_at` is a time in ISO 8601; `server` PostgreSQL's version; `artifacts` False where they
    lie at S3, and are no part of the backup."""

    form: int
    made_at: str
    server: str
    artifacts: bool
    runs: bool


def read_about(content: bytes) -> About:
    """Raises InvalidInput for what is no backup, or one of a newer form."""
    try:
        about = msgspec.json.decode(content, type=About)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"This is no backup of Reckoner: {ABOUT}: {error}.") from error
    if about.form != FORM:
        raise InvalidInput(f"This backup has form {about.form}, and this version of Reckoner reads form {FORM}.")
    return about
