"""`make check`: lint, format, types, contracts, migrations, OpenAPI and deployment, in parallel, under a minute."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MANAGE = (sys.executable, "-W", "ignore::RuntimeWarning", str(ROOT / "manage.py"))


@dataclass(frozen=True, slots=True)
class Step:
    """One command that must exit 0."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


STEPS = (
    Step(
        "types",
        (
            *(str(BIN / "mypy"), "workspaces", "jobs", "models_registry", "decisions", "training", "project"),
            *("sandbox", "clients/python/reckoner_client"),
        ),
    ),
    Step("lint", (str(BIN / "ruff"), "check", ".")),
    Step("format", (str(BIN / "ruff"), "format", "--check", ".")),
    Step("import contracts", (str(BIN / "lint-imports"),)),
    # No database is asked: neither the comparison of models and migrations nor the schema needs one.
    Step("migrations", (*MANAGE, "makemigrations", "--check", "--dry-run")),
    Step("openapi", (*MANAGE, "spectacular", "--validate", "--fail-on-warn", "--file", os.devnull)),
    Step(
        "deployment",
        (*MANAGE, "check", "--deploy", "--fail-level", "WARNING"),
        {
            "RECKONER_HTTPS": "1",
            "RECKONER_SECRET_KEY": "only-for-this-check-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 2,
        },
    ),
)


def run_step(step: Step) -> tuple[Step, int, str, float]:
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603 - the table above
        step.command,
        cwd=ROOT,
        env={**os.environ, **step.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return step, done.returncode, done.stdout, time.monotonic() - started


def main() -> int:
    """Exit code 0 when every step passed; prints what a failing step said."""
    failed = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for step, code, output, seconds in pool.map(run_step, STEPS):
            sys.stdout.write(f"{'ok  ' if code == 0 else 'FAIL'}  {step.name}  ({seconds:.0f} s)\n")
            if code != 0:
                failed += 1
                sys.stdout.write(output.rstrip() + "\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
