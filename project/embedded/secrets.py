"""Secrets, made once per instance in var/secrets with mode 0600. Settings call `load_secret` for each."""

import os
import re
import secrets
from pathlib import Path

from project.embedded.errors import EmbeddedError
from project.embedded.layout import Layout, locate_var, write_draft

NAME = re.compile(r"[a-z][a-z0-9_]*")
SECRET_BYTES = 48


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
    draft = write_draft(path, secret)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
