""".env.example holds every setting, with the code's default or a word about it, and a line that says what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs.test_docs_complete import ROOT, codes, defaults_in_settings, documented_settings, variables_in_code

# The one place where the default is another than in Compose is the comment above the variable.
OF_COMPOSE_ALONE = {
    *("COMPOSE_PROFILES", "PUBLISHED_ADDRESS", "PUBLISHED_GATEWAY_ADDRESS", "BOOTSTRAP_FLAGS", "HF_HOME"),
} | {f"POSTGRES_{name}" for name in ("USER", "DB", "PASSWORD", "INITDB_ARGS")}


def env_example() -> Iterator[tuple[str, str, str, bool]]:
    """(variable, value, the comment above it, whether it is set) of every entry of .env.example."""
    comment = ""
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        entry = re.match(r"^(#?)([A-Z_]+)=(.*)$", line)
        if entry:
            yield entry[2], entry[3], comment, not entry[1]
        comment = line.removeprefix("# ") if line.startswith("# ") else ""


def test_env_example_has_every_setting_with_a_line_about_it_and_no_other() -> None:
    entries = list(env_example())
    names = [name for name, *_ in entries]
    assert len(names) == len(set(names))
    assert set(names) == variables_in_code() | OF_COMPOSE_ALONE
    assert [name for name, _, comment, _ in entries if not comment.endswith(".")] == []
    read_by_others = {name for name, _, comment, _ in entries if "Read by" in comment}
    assert read_by_others == OF_COMPOSE_ALONE


def test_env_example_gives_the_code_s_defaults_or_says_them() -> None:
    entries = {name: (value, comment) for name, value, comment, is_set in env_example() if is_set}
    written = dict(defaults_in_settings())
    assert len(written) > 12
    assert {name: entries[name][0] for name in written} == written
    # A default that is made at start cannot be written as a value: the comment says it, or it is empty.
    others = set(entries) - set(written) - OF_COMPOSE_ALONE - {"RECKONER_LOG_LEVEL"}
    assert {name for name in others if "Default: " not in entries[name][1]} == set()
    assert entries["RECKONER_LOG_LEVEL"][0] == codes(documented_settings()["RECKONER_LOG_LEVEL"])[0]
