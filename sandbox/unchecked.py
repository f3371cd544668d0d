"""One program in the sandbox, without asking first whether the walls hold: for the canary, and for `run` after it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Literal

from sandbox.finished import Finished, finish
from sandbox.limits import Limits
from sandbox.machine import Machine, find_machine
from sandbox.process import Program, hold, watch

Language = Literal["python", "shell"]
DEFAULT_LIMITS = Limits()
PAGE = 4096
MAIN = {"python": "main.py", "shell": "main.sh"}


def run_unchecked(
    code: str,
    language: Language = "python",
    *,
    stdin: str | bytes = "",
    files: Mapping[str, str | bytes] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Finished:
    """As `sandbox.run.run_code`, which says what is meant."""
    machine = find_machine()
    main = MAIN[language]
    contents = {name: _as_bytes(content) for name, content in (files or {}).items()}
    for name in contents:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name in (".", main) or "\0" in name:
            raise ValueError(f"{name!r} is not the path of a file in the program's folder, or is the program's own")
    contents[main] = _as_bytes(code)
    if not fit(contents, limits):
        raise ValueError(f"the program and its files are larger than {limits.disk_bytes} bytes of disk")
    with ExitStack() as given:
        stdin_fd = hold(_as_bytes(stdin), given)
        with Program(
            machine,
            interpreter(machine, language),
            limits=limits,
            files=contents,
            stdin=stdin_fd,
        ) as program:
            watch(program)
            return finish(program)


def fit(files: Mapping[str, bytes], limits: Limits) -> bool:
    """Whether files fit on the disk that a program gets, with some room for folders."""
    return sum(len(content) // PAGE * PAGE + PAGE for content in files.values()) <= limits.disk_bytes - 8 * PAGE


def interpreter(machine: Machine, language: Language) -> list[str]:
    if language == "shell":
        return [machine.shell, "-e", MAIN[language]]
    # No site packages, no user's folder, no bytecode; the program's own folder can be imported from.
    return [machine.python, "-s", "-S", "-B", MAIN[language]]


def _as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", errors="surrogatepass")
