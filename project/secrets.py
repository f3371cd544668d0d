"""Secrets made once per instance, in var/secrets, mode 0600. Settings call `load_secret` for each one they need.

Where .env gives them instead, settings first call `refuse_placeholders`.
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from project.embedded.errors import EmbeddedError
from project.embedded.layout import Layout, locate_var

NAME = re.compile(r"[a-z][a-z0-9_]*")
SECRET_BYTES = 48
# What .env.example has in the place of every secret. Other programs' variables may hold such words as they like.
PLACEHOLDER = "replace-me-"
OURS = re.compile(r"RECKONER_\w+|POSTGRES_\w+|DATABASE_URL|REDIS_URL")


def refuse_placeholders(environment: Mapping[str, str]) -> None:
    """Raises ValueError, naming the variables, when one still has its word from .env.example: everybody knows that."""
    left = sorted(name for name, value in environment.items() if OURS.fullmatch(name) and PLACEHOLDER in value)
    if left:
        raise ValueError(
            f"{', '.join(left)}: still what .env.example says ({PLACEHOLDER}…). "
            "Remove .env and run `make env`, or put secrets of your own there"
        )


def load_secret(name: str, env_var: str, var: Path | None = None) -> str:
    """The secret from the environment variable, else from var/secrets/<name>, made there the first time.

    384 random bits in URL-safe base64 (64 characters). Processes that start at once agree on one. Raises ValueError
    for a name that is no plain word, EmbeddedError when the file is empty.
    """
    given = os.environ.get(env_var)
    if given:
        return given
    if not NAME.fullmatch(name):
        raise ValueError(f"a secret's name is a lower-case word, got {name!r}")
    directory = Layout(var or locate_var()).secrets
    path = directory / name
    if not path.exists():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_once(path, secrets.token_urlsafe(SECRET_BYTES))
    secret = path.read_text(encoding="ascii").strip()
    if not secret:
        raise EmbeddedError(f"{path} is empty; remove it to make a new secret, or set {env_var}")
    return secret


def _create_once(path: Path, secret: str) -> None:
    """A link of a complete file either succeeds alone or finds the other process's; nobody reads half a secret."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
