"""Checks that each importer and each operation is documented, with every part that its page needs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from tools.instance import ROOT

DOCS = ROOT / "docs"
IMPORTER_SECTIONS = ("Input", "Example", "Mapping", "Refused", "Checked against")
DOCUMENTATION_ONLY = ("tensorzero", "langfuse")
"""Importers that were never tried on a real export; their pages say so."""


def sections(text: str, level: int = 2) -> dict[str, str]:
    """Headings of a level with what stands below each."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def importer_faults(name: str) -> list[str]:
    """What the page of an importer lacks; empty when it has all."""
    page = DOCS / "importing" / f"{name}.md"
    if not page.exists():
        return [f"no page {page.relative_to(ROOT)}"]
    held = sections(page.read_text(encoding="utf-8"))
    faults = [f"no section {heading}" for heading in IMPORTER_SECTIONS if not held.get(heading, "").strip()]
    if faults:
        return faults
    example = held["Example"]
    command = re.search(r"^```sh\n(.*?)^```", example, re.MULTILINE | re.DOTALL)
    if command is None or f"--format {name} " not in command[1] or "<<'END'" not in command[1]:
        faults.append("Example: no file, or no command that imports it")
    answer = re.search(r"^<!-- the answer -->\n```json\n(.*?)^```", example, re.MULTILINE | re.DOTALL)
    if answer is None or '"refusals": ["' not in answer[1]:
        faults.append("Example: no report that shows a refusal")
    faults += [f"{heading}: no table" for heading in ("Mapping", "Refused") if held[heading].count("\n|") < 4]
    only = "documentation only" in held["Checked against"]
    if only != (name in DOCUMENTATION_ONLY):
        faults.append("Checked against: contradicts DOCUMENTATION_ONLY")
    return faults


def places() -> dict[str, str]:
    """Headings such as `GET /api/v1/runs` with what stands below them, over all pages of the reference."""
    found: dict[str, str] = {}
    for page in sorted((DOCS / "api").glob("*.md")):
        found |= sections(page.read_text(encoding="utf-8"))
    return found


def operation_faults(method: str, path: str, operation: dict[str, Any], held: dict[str, str]) -> list[str]:
    """What the place of an operation lacks; empty when it has all. `held` is `places()`."""
    text = held.get(f"{method.upper()} {path}")
    if text is None:
        return ["no place in docs/api"]
    faults = [] if re.search(r"^Scope: `[a-z:]+`\.$", text, re.MULTILINE) else ["no scope"]
    wanted = [f"**Answer {status}**" for status in operation["responses"] if int(status) < 400]
    wanted += ["**Errors**: " + ", ".join(status for status in operation["responses"] if int(status) >= 400)]
    wanted += [f"| `{one['name']}` |" for one in operation.get("parameters", ()) if one.get("in") in {"query", "path"}]
    faults += [f"no {part}" for part in wanted if part not in " ".join(text.split("\n"))]
    body, _, answer = text.partition("**Answer ")
    faults += ["no example of the answer"] if not re.search("```(json|text)", answer) else []
    if "requestBody" in operation:
        faults += ["no body"] if "**Body**" not in body else []
        faults += ["no example of the body"] if "```json" not in body else []
    return faults


def importers() -> list[str]:
    """The formats that the command takes."""
    command = [sys.executable, "-W", "ignore", "manage.py", "import_decisions", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    found = re.search(r"--format \{([a-z,-]+)\}", " ".join(shown.split()))
    assert found, shown
    return found[1].split(",")
