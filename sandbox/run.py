"""`run_code`: one program, Python or shell, in the sandbox; what it printed and how it ended."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.canary import ensure_checked
from sandbox.finished import Finished
from sandbox.limits import Limits
from sandbox.unchecked import DEFAULT_LIMITS, Language, run_unchecked


def run_code(
    code: str,
    language: Language = "python",
    *,
    stdin: str | bytes = "",
    files: Mapping[str, str | bytes] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Finished:
    """Runs `code` in a folder of its own that holds `files` (relative path → content), and returns how it ended.

    Python is the machine's own, with the standard library alone. A shell script is run by bash, where there is one, and
    stops at the first command that fails (`-e`), so that exit code 0 means that all succeeded. Raises SandboxMissing or
    SandboxError when the sandbox fails, and ValueError for a path that leads out of the folder.
    """
    ensure_checked()
    return run_unchecked(code, language, stdin=stdin, files=files, limits=limits)
