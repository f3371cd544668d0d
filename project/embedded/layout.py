"""Paths of an instance's data, under one directory `var`. Everything in project.embedded takes a Layout."""

import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from project.embedded.errors import EmbeddedError

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent

# sockaddr_un holds 104 bytes on macOS and 108 on Linux, the closing NUL included.
SOCKET_PATH_BYTES = 103
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"


def locate_var() -> Path:
    """The instance's directory, absolute: RECKONER_VAR; var/ in a checkout; else among the user's own data."""
    given = os.environ.get("RECKONER_VAR")
    if given:
        return Path(given).resolve()
    if (PROJECT_ROOT / "manage.py").exists():
        return (PROJECT_ROOT / "var").resolve()
    return platformdirs.user_data_path("reckoner", appauthor=False).resolve()


def find_assets(name: str) -> Path:
    """The folder "templates" or "static": inside the package where it was installed, beside it in a checkout."""
    inside = PROJECT_ROOT / "project" / name
    return inside if inside.is_dir() else PROJECT_ROOT / name


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of one instance; `var` is absolute."""

    var: Path

    @property
    def postgres(self) -> Path:
        return self.var / "postgres"

    @property
    def valkey(self) -> Path:
        return self.var / "valkey"

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def secrets(self) -> Path:
        return self.var / "secrets"

    @property
    def services(self) -> Path:
        """JSON {"DATABASE_URL", "REDIS_URL", "MODEL_SERVER_URL"} while the instance runs; settings read it."""
        return self.run / "services.json"

    def create(self) -> None:
        """Make the directories that are missing. What holds data is the owner's alone, also where an earlier version
        made it; `var` and `run` are ways to the database's socket, which another user owns when we are root."""
        for directory in (self.var, self.run):
            directory.mkdir(parents=True, exist_ok=True)
        for directory in (self.valkey, self.log, self.secrets, self.var / "artifacts", self.var / "runs"):
            directory.mkdir(mode=0o700, exist_ok=True)
            directory.chmod(0o700)

    def locate_sockets(self, name: str) -> Path:
        """Directory for Unix sockets: var/run/<name>, or one in /tmp where that path is too long for a socket."""
        inside = self.run / name
        if len(os.fsencode(inside / LONGEST_SOCKET_NAME)) <= SOCKET_PATH_BYTES:
            return inside
        digest = hashlib.sha256(os.fsencode(self.var)).hexdigest()[:12]
        return Path(f"/tmp/reckoner-{os.geteuid()}-{digest}-{name}")  # noqa: S108 - private, see make_private


def make_private(directory: Path, owner: tuple[int, int] | None = None) -> None:
    """Make `directory` exist with mode 0700 and the given (uid, gid), our own by default.

    Raises EmbeddedError when somebody else already made it: a directory in /tmp can be prepared by another user.
    """
    uid, gid = owner or (os.geteuid(), os.getegid())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {uid, os.geteuid()}:
        raise EmbeddedError(f"{directory} belongs to somebody else; remove it or set RECKONER_VAR to a shorter path")
    os.chown(directory, uid, gid)
    directory.chmod(0o700)


def write_draft(path: Path, text: str) -> Path:
    """A complete file beside `path`, on the disk, with mode 0600 and a name of its own, to be moved or linked there."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft


def write_private(path: Path, text: str) -> None:
    """Replace the file at once with mode 0600: readers see the old text or the new."""
    write_draft(path, text).replace(path)
