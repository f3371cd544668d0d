"""The documented faults are those of `tools.faults`, whose runner calls nothing passed that was not."""

import re
import sys
from pathlib import Path

import pytest

from tools import faults
from tools.faults import FAULTS, Fault, Program, cause, command_of, run

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (F\d+) \| (.+?) \| ", re.M)


def test_the_documented_faults_are_those_that_are_caused() -> None:
    documented = ROW.findall((ROOT / "docs" / "operations.md").read_text())
    assert documented == [(fault.name, fault.what) for fault in FAULTS]


@pytest.mark.parametrize(
    ("program", "printed", "code", "state"),
    [
        ("benchmark", '{"rows": [{"what": "of web", "passed": true}]}', 0, "passed"),
        ("benchmark", '{"rows": [{"what": "of web", "passed": false}]}', 1, "failed"),
        ("benchmark", '{"rows": [{"what": "of web", "passed": true}]}', 7, "failed"),  # it crashed afterwards
        ("benchmark", '{"rows": [{"what": "other", "passed": true}]}', 0, "failed"),
        (
            "benchmark",
            '{"rows": [{"what": "of web", "passed": true}, {"what": "other", "passed": false}]}',
            1,
            "passed",
        ),
        ("benchmark", "Killed", -9, "failed"),
        ("tests", "3 passed, 1 skipped in 1.0s", 0, "passed"),
        ("tests", "3 skipped in 1.0s", 0, "not run"),
        ("tests", "1 failed, 3 passed in 1.0s", 1, "failed"),
        ("tests", "no tests ran in 0.1s", 5, "not run"),
    ],
)
def test_a_fault_has_passed_only_where_its_program_says_so(
    monkeypatch: pytest.MonkeyPatch, program: str, printed: str, code: int, state: str
) -> None:
    kinds = {
        "benchmark": Program(benchmark="ingest_kills", rows="of web"),
        "tests": Program(tests=("tests/docs/test_faults.py",)),
    }
    mark = ("pytest",) if program == "tests" else ()
    prints = f"import os, sys; print({printed!r}); sys.stdout.flush(); os._exit({code % 256})"
    monkeypatch.setattr(faults, "command_of", lambda *_, **__: (sys.executable, "-Sc", prints, *mark))
    run.cache_clear()
    assert cause(Fault("F1", "kills", (kinds[program],)), quick=True).state == state
    run.cache_clear()


def test_what_is_not_there_is_not_run_and_fails_no_other() -> None:
    outcome = cause(
        Fault("F1", "kills", (Program(benchmark="nothing"), Program(tests=("tests/nowhere.py",)))), quick=True
    )
    assert (outcome.state, outcome.counts) == ("not run", "nothing is not there; tests/nowhere.py is not there")


def test_a_long_run_takes_its_own_options() -> None:
    program = Program(benchmark="frozen_database", options=("--seconds", "60"))
    assert command_of(program, quick=False)[-2:] == ("--seconds", "60")
    assert command_of(program, quick=True)[-1] == "--quick"
