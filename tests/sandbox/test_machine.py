"""Where the sandbox cannot work, or does not hold: no program is run, and the error says what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from sandbox.errors import SandboxMissing
from sandbox.machine import explain
from sandbox.syscalls import write_filter

PYTHON = "/usr/bin/python3"
ATTEMPT = """
from sandbox.errors import SandboxError
from sandbox.run import run_code
try:
    print(run_code("print(open('/proc/self/uid_map').read().split())").stdout)
except SandboxError as error:
    print(type(error).__name__, error)
"""
pytestmark = pytest.mark.usefixtures("boxes")


def attempt(folder: Path, *before: str, user: int | None = None, path: str = "/usr/bin:/bin") -> str:
    """What a process of its own prints that runs one program; `before` is put before its command line."""
    done = subprocess.run(
        [*before, PYTHON, "-B", "-c", ATTEMPT],
        cwd=folder,
        env={"PATH": path},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_bubblewrap_it_says_what_to_install(readable: Path) -> None:
    hidden = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", shutil.which("bwrap") or "")
    said = attempt(readable, *hidden)
    assert said.startswith("SandboxMissing install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap")


def test_where_user_namespaces_are_forbidden_it_says_so(readable: Path) -> None:
    said = attempt(
        readable,
        "bwrap",
        "--unshare-user",
        "--disable-userns",
        "--dev-bind",
        "/",
        "/",
        user=12345 if os.geteuid() == 0 else None,
    )
    assert said.startswith("SandboxMissing bubblewrap may not make a user namespace: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_can_use_it(readable: Path) -> None:
    assert attempt(readable, user=12345) == "['65534', '65534', '1']"


@pytest.mark.parametrize(
    ("without", "instead", "broken"),
    [
        ("--unshare-all", "--unshare-pid --unshare-ipc --unshare-uts", "reaches no network"),
        ("--tmpfs /proc/1 --remount-ro /proc/1", "", "sees nothing of the first one"),
        ("--remount-ro / ", "", "writes nothing outside"),
        ("--cap-drop ALL", "--cap-add CAP_SYS_ADMIN", "has no privileges"),
    ],
)
def test_a_wall_that_is_open_is_found_before_the_first_program(
    readable: Path, without: str, instead: str, broken: str
) -> None:
    """A bubblewrap in the way that leaves something out, as an administrator's wrapper might."""
    wrapper = readable / "bin" / "bwrap"
    wrapper.parent.mkdir()
    real = shutil.which("bwrap")
    wrapper.write_text(
        textwrap.dedent(f"""\
            #!{PYTHON}
            import os, sys
            line = "\\0".join(sys.argv[1:]).replace({without.replace(" ", chr(0))!r}, {instead.replace(" ", chr(0))!r})
            os.execv({real!r}, [{real!r}, *(word for word in line.split("\\0") if word)])
            """)
    )
    for place in (wrapper.parent, wrapper):
        place.chmod(0o755)
    said = attempt(readable, path=f"{wrapper.parent}:/usr/bin:/bin")
    assert said.startswith("SandboxError the sandbox is not safe, so no program is run")
    assert broken in said


def test_messages_of_bubblewrap_become_advice() -> None:
    for message, advice in (
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8 or newer"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("bwrap: setting up uid map: Permission denied", "user namespace"),
        ("", "it said nothing"),
    ):
        assert advice in str(explain(message))
    with pytest.raises(SandboxMissing, match="not of riscv64"):
        write_filter("riscv64")


def test_the_command_says_what_holds(readable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from django.core.management import call_command

    call_command("sandbox", "check", "--json")
    state = json.loads(capsys.readouterr().out)
    assert state["works"] and state["problem"] is None and state["bubblewrap"].startswith("/")
    assert len(state["walls"]) > 8 and all(state["walls"].values())
    call_command("sandbox", "check")
    assert capsys.readouterr().out.endswith("The sandbox works.\n")
