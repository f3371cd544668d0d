"""What a backup's file holds, and under which names."""

from __future__ import annotations

import os

import msgspec
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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


def split_address(url: str) -> tuple[str, dict[str, str]]:
    """The address without its password, and what a program of PostgreSQL's is started with: its arguments are anybody's
    to read, and its environment is not."""
    parameters = conninfo_to_dict(url)
    password = parameters.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    return make_conninfo("", **parameters), environment


def read_about(content: bytes) -> About:
    """Raises InvalidInput for what is no backup, or one of a newer form."""
    try:
        about = msgspec.json.decode(content, type=About)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"This is no backup of Reckoner: {ABOUT}: {error}.") from error
    if about.form != FORM:
        raise InvalidInput(f"This backup has form {about.form}, and this version of Reckoner reads form {FORM}.")
    return about
