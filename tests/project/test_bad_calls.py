"""Every management command, called as nobody should: it ends with its exit code and a line, and no traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.project.bad_calls import (
    USUAL,
    list_commands,
    list_options,
    list_usual,
    make_arguments,
    make_bad_calls,
    make_files,
    run,
    run_undone,
)
from workspaces.commands import EXIT_NO_DATABASE

COMMANDS = list_commands()
DJANGO_S = {"migrate"}
WITHOUT_DATABASE = {
    "company_run", "company_tasks", "export_model", "harbor_tasks", "hardware", "ollama", "restore", "sandbox", "train",
    "up", "verifiers_tasks", "write_harbor_tasks",
}  # fmt: skip
LONGEST = 20
"""Lines that a command says at most."""
BAD = {
    "backup": (["{folder}"], "folder is there already: name another file"),
    "bootstrap": (["--resume", "never"], "--resume: invalid choice: 'never'"),
    "calculate_rewards": (["--workspace", "nowhere"], "No agent matches nowhere"),
    "calibrate_judge": (["nobody"], "There is no agent 'nobody' in acme"),
    "collect_artifacts": (["--days", "inf"], "--days: inf must be above 0"),
    "company_run": (["{missing}", "--agent=x", "--base-url=x", "--model=m", "--outputs=x"], "task.md: is missing"),
    "company_tasks": (["{words}"], "words: is not a folder"),
    "create_dataset": (
        ["--agent", "filer", "--name", "x", "--since", "soon"],
        "'soon' is not an ISO 8601 time",
    ),
    "create_key": (["x" * 201, "--scope", "admin"], "name: has 201 characters; 1 to 200 are allowed"),
    "create_notes_agents": (["--workspace", "nowhere"], "--workspace: name one of: acme"),
    "demo": (["show"], "This ledger has no demo"),
    "disk_usage": (["--all"], "unrecognized arguments: --all"),
    "draw_tasks": (["chess", "--agent", "filer"], "environment: 'chess' is not installed here"),
    "drop_old_decisions": (["--months", "-1"], "--months: 1 to 1200"),
    "erase_person": (["--unit", "a", "--user", "b"], "give exactly one of unit and user"),
    "evaluate": (
        ["--model", "{folder}", "--test-data", "{cut}", "--agent-type", "filer"],
        "cut:1: Input data was trunc",
    ),
    "export_dataset": (["7", "--to", "{new}"], "dataset: invalid UUID value: '7'"),
    "export_model": (["--model", "filer:9", "--output", "{new}"], "Model filer has no version 9"),
    "export_traces": (["{new}", "--agent", "nobody"], "nobody"),
    "export_training_data": (["--agent-type", "filer", "--output", "{folder}"], "folder is a folder; name a file"),
    "harbor_tasks": (["{folder}"], "folder: holds no task folders"),
    "hardware": (["--profile", "QUANTUM"], "--profile: invalid choice: 'QUANTUM'"),
    "import_decisions": (["{binary.jsonl}", "--format", "jsonl"], "binary.jsonl:1: The record contains a NUL"),
    "import_model": (["{missing}", "--agent", "filer"], "there is no folder"),
    "import_dataset": (["{binary.jsonl}", "--agent", "filer", "--name", "x"], "binary.jsonl:1: "),
    "import_labelled": (["{rows.jsonl}", "--agent", "filer", "--name", "x" * 201], "--name: has 201 characters"),
    "import_texts": (["{nested}", "--agent", "filer", "--name", "x"], "nested:1: "),
    "keys": (["revoke", "nobody"], "There is no key 'nobody' in acme"),
    "migrate": (["nowhere"], "No installed app with label 'nowhere'"),
    "monitor": (["--every", "nan"], "--every: nan must be above 0"),
    "ollama": (["list", "--host", "[]"], "'[]' is not the address of a server"),
    "people": (["role", "nobody@example.org", "--role", "viewer"], "nobody@example.org is not in acme"),
    "pipeline": (["--agent", "filer", "--set", "[" * 100_000], "--set: "),
    "rehearse": (["{binary.csv}", "--text-field", "a", "--label-field", "b"], "binary.csv"),
    "remove_expired": (["--days", "1"], "unrecognized arguments: --days"),
    "restore": (["{words}"], "no whole backup of Reckoner"),
    "retry_jobs": (["--kind", "nothing"], "No dead job matches"),
    "reward_specs": (["set", "filer", "{cut}"], "The text is not valid YAML"),
    "runs": (["start", "--agent", "filer", "--set", "["], "--set: "),
    "sandbox": (["open"], "invalid choice: 'open'"),
    "train": (["--data", "{words}", "--output", "{new}"], "words:1: "),
    "suggest_labels": (["nobody"], "nobody"),
    "training_stats": (["GUARDRAIL"], "There is no GUARDRAIL agent"),
    "up": (["--port", "70000"], "--port: 70000 must be 1 to 65535"),
    "verifiers_tasks": (["none", "--python", "{folder}"], "is not an interpreter"),
    "workspaces": (["create", "new", "--name", "New"], "--admin: give the e-mail address"),
    "write_harbor_tasks": (["chess", "{new}"], "unknown environment 'chess'"),
}
"""A call of each and a part of what it says."""


def test_every_command_has_help_with_exit_codes_and_reports_as_json() -> None:
    assert USUAL.keys() == COMMANDS.keys() == BAD.keys()
    for name, command in COMMANDS.items():
        told = " ".join(command.create_parser("manage.py", name).format_help().split())
        assert name in DJANGO_S or ("xit code" in told and "--json" in told), name


@pytest.mark.django_db
def test_a_bad_call_ends_in_a_line_that_says_what_is_wrong(agent: Any, tmp_path: Path) -> None:
    files = make_files(tmp_path)
    for name, (arguments, part) in BAD.items():
        ended = run_undone(name, [files.get(one.strip("{}"), one) if one[:1] == "{" else one for one in arguments])
        assert isinstance(ended.code, int) and ended.code > 0, (name, ended)
        assert part in ended.said and len(ended.said.splitlines()) <= LONGEST, (name, ended.said[:500])


@pytest.fixture
def no_database(django_db_blocker: Any) -> Iterator[None]:
    """Where the database should be, nobody listens."""
    real, gone = connections["default"], connections.create_connection("default")
    gone.settings_dict = {**gone.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
    with django_db_blocker.unblock():
        connections["default"] = gone
        try:
            yield
        finally:
            connections["default"] = real


def test_without_a_database_it_says_so(no_database: None, tmp_path: Path) -> None:
    files = make_files(tmp_path)
    for name in COMMANDS.keys() - WITHOUT_DATABASE:
        ended = run(name, make_arguments(list_options(COMMANDS[name], name), list_usual(name)[0], files))
        assert (ended.code, ended.said.partition(":")[0]) == (EXIT_NO_DATABASE, "The database does not answer"), name
        assert "Connection refused" in ended.said and len(ended.said.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "up"])
def test_no_value_of_an_option_ends_in_a_traceback(agent: Any, owner: Any, tmp_path: Path, name: str) -> None:
    options, files, calls = list_options(COMMANDS[name], name), make_files(tmp_path), 0
    for arguments in make_bad_calls(name, options, files):
        ended, calls = run_undone(name, arguments), calls + 1
        assert not isinstance(ended.code, str) and "Traceback" not in ended.said, (arguments, ended.code)
        assert not ended.code or ended.said or ended.output, arguments
        if "--json" in arguments and ended.output:
            json.loads(ended.output)
            assert ended.output.count("\n") == 1, arguments
    assert calls >= len(options)
