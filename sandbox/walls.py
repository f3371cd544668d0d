"""What a program in the sandbox sees: the command line of bubblewrap.

Namespaces of its own for users, processes, network, mounts, IPC, host name and cgroups; no capability, and none to be
had. The machine's programs and libraries are read-only. `/box` is the only place to write, in memory and of limited
size; `/tmp` and `/dev/shm` lie in it. No device gives memory away: /dev/zero, mapped and shared, would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.limits import Limits
from sandbox.machine import Machine

BOX = "/box"
WORK, TEMPORARY, SHARED = f"{BOX}/work", f"{BOX}/tmp", f"{BOX}/shm"  # noqa: S108 - the sandbox's own
NOBODY = 65534
PASSWD = b"nobody:x:65534:65534:nobody:/box/work:/bin/sh\n"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": WORK,
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # sets come in the same order each time: so do verdicts
    "PYTHONDONTWRITEBYTECODE": "1",
}
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    (SHARED, "/dev/shm"),  # noqa: S108
    (TEMPORARY, "/tmp"),  # noqa: S108
)


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What bubblewrap reads and writes for itself: a list of users, the filter of system calls, its status."""

    passwd: int
    filter: int
    status: int


def build_command(
    machine: Machine,
    command: Sequence[str],
    *,
    limits: Limits,
    files: Sequence[tuple[int, str]],
    own: Descriptors,
) -> list[str]:
    """bubblewrap with `command` inside; `files` are (descriptor to read it from, path within the working folder)."""
    built = [machine.bubblewrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
    built += ["--new-session", "--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"]
    built += ["--uid", str(NOBODY), "--gid", str(NOBODY)]
    for name, value in ENVIRONMENT.items():
        built += ["--setenv", name, value]
    for folder in machine.folders:
        built += ["--ro-bind", folder, folder]
    for name, target in machine.links:
        built += ["--symlink", target, name]
    for optional in ("/etc/alternatives", "/etc/ld.so.cache"):
        built += ["--ro-bind-try", optional, optional]
    built += ["--ro-bind-data", str(own.passwd), "/etc/passwd"]
    # pid 1 is bubblewrap, with the same user id: whoever wrote into its memory could outlive the call.
    built += ["--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    for device in DEVICES:
        built += ["--dev-bind", device, device]
    built += ["--size", str(limits.disk_bytes), "--tmpfs", BOX]
    built += ["--dir", WORK, "--dir", TEMPORARY, "--dir", SHARED]
    for target, name in LINKS:
        built += ["--symlink", target, name]
    for descriptor, path in files:
        built += ["--file", str(descriptor), f"{WORK}/{path}"]
    built += ["--remount-ro", "/", "--chdir", WORK, "--seccomp", str(own.filter), "--json-status-fd", str(own.status)]
    return [*built, "--", machine.prlimit, *limits.as_rlimits(), "--", *command]
