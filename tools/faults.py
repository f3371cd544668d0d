"""The faults that Reckoner survives, each with the program that causes it, and a runner of all.

    python -m tools.faults [--quick] [--only F7 …] [--json] [--list]

`make test-faults` runs it: an hour without `--quick`. Programs run one after the other, each once, also where it shows
several faults; what they print goes to standard error. A fault has passed where its programs ended with 0 and showed
something. One whose program is not there, or whose tests were all skipped, is not run, which is no pass. Exit codes: 0
all have passed; 1 one has failed; 2 an argument is wrong; 3 none has failed and one was not run.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")

NO_TESTS = (4, 5)
"""How pytest ends where a node is not there, or nothing was collected."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module of `benchmarks`, or files and nodes of tests. `rows`: the benchmark's rows that are of the fault."""

    benchmark: str = ""
    tests: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """`lacks`: what the fault has besides, which no program causes."""

    name: str
    what: str
    programs: tuple[Program, ...]
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`state`: passed, failed or not run. `counts`: of rows or tests, as the programs printed them."""

    fault: str
    what: str
    state: str
    counts: str
    seconds: float
    lacks: str = ""


def _bench(name: str, *options: str, rows: str = "") -> Program:
    return Program(benchmark=name, options=options, rows=rows)


def _tests(*nodes: str) -> Program:
    return Program(tests=nodes)


FAULTS = (
    Fault("F1", "kill -9 of the web processes under load", (_bench("ingest_kills", rows="of web"),)),
    Fault("F2", "kill -9 of PostgreSQL under load", (_bench("ingest_kills", rows="of PostgreSQL"),)),
    Fault(
        "F3", "the broker away, or flushed",
        (_tests("tests/jobs/test_jobs_worker.py", "tests/jobs/test_jobs_queueing.py",
                "tests/workspaces/test_valkey_away.py"),
         _bench("broker_and_beats", rows="F3")),
    ),
    Fault("F4", "kill -9 of a worker in rewards and looks", (_tests("tests/decisions/rewards/test_kills.py"),)),
    Fault(
        "F5", "two beats, clocks that jump, summer time",
        (_tests("tests/jobs/test_jobs_queueing.py", "tests/jobs/test_clocks.py"),
         _bench("broker_and_beats", rows="F5")),
    ),
    Fault(
        "F6", "kill -9 and SIGSTOP of the trainer, SIGSTOP of the exporter",
        (_tests("tests/training/engine/test_engine_resume.py", "tests/training/test_frozen_workers.py",
                "tests/training/test_run_progress.py",
                "tests/training/test_engine_runs.py::test_a_killed_engine_resumes_from_its_checkpoint_and_ends"),),
    ),
    Fault("F7", "kill -9 of exporter and engine at named places", (_bench("export_kills"),)),
    Fault("F8", "kill -9 during a promotion", (_bench("promotion_kills"),)),
    Fault("F9", "a model server killed or frozen under traffic", (_bench("fallback"),)),
    Fault(
        "F10", "feedback repeated, shuffled, late, before its decision",
        (_tests("tests/decisions/rewards/test_rewards.py", "tests/decisions/rewards/test_what_is_due.py"),),
    ),
    Fault(
        "F11", "clocks of clients and machines days off",
        (_tests("tests/jobs/test_clocks.py", "tests/decisions/rewards/test_windows_by_the_database.py",
                "tests/decisions/ingest/test_ledger_ingest.py", "tests/decisions/ingest/test_client_clocks.py"),),
    ),
    Fault(
        "F12", "poison jobs: raise, exit, killed for memory, hang",
        (_tests("tests/jobs/test_jobs_running.py", "tests/jobs/test_hangs.py"), _bench("poison_jobs")),
    ),
    Fault(
        "F13", "a full disk",
        (_tests("tests/project/test_full_disk.py"),
         _tests("tests/models_registry/test_artifacts.py::test_a_disk_that_fails_leaves_nothing")),
    ),
    Fault(
        "F14", "one Idempotency-Key a hundred times at once",
        (_tests("tests/workspaces/test_idempotency.py"),),
    ),
    Fault(
        "F15", "generated requests",
        (_bench("generated_requests"), _tests("tests/architecture/test_generated_requests.py")),
    ),
    Fault("F16", "load: decisions, batches, rewards of a million", (_bench("ingest"), _bench("rewards"))),
    Fault("F17", "a backup restored on a blank host", (_tests("tests/project/embedded/test_backup.py"),)),
    Fault("F18", "64 slow connections without a log-in", (_bench("slow_connections"),)),
    Fault(
        "F19", "one id decided and judged by many at once",
        (_tests("tests/decisions/gateway/test_gateway.py::test_one_id_at_the_same_moment_gets_one_answer",
                "tests/decisions/gateway/test_gateway.py::"
                "test_a_hundred_ids_decided_and_judged_by_eight_at_once_have_one_effect_each",
                "tests/decisions/gateway/test_gateway.py::TestAnIdempotencyKey",
                "tests/decisions/ingest/test_ledger_ingest.py"),),
    ),
    Fault(
        "F20", "gzip members, attributes and brackets without end",
        (_tests("tests/workspaces/test_parsing.py", "tests/decisions/traces/test_otlp.py",
                "tests/test_hostile_bodies.py"),),
    ),
    Fault("F21", "PostgreSQL frozen under load", (_bench("frozen_database", "--seconds", "60"),)),
    Fault("F22", "a backend without limits", (_bench("odd_backend"),)),
    Fault("F23", "a thousand connections with one byte of a body", (_bench("unread_bodies"),)),
    Fault("F24", "patterns that backtrack", (_bench("patterns"),)),
    Fault(
        "F25", "512 calls at once on a small budget",
        (_tests("tests/decisions/gateway/test_budgets.py", "tests/project/gateway/test_budgets_of_chats.py"),),
    ),
    Fault("F26", "a busy workspace of millions beside a small one", (_bench("noisy_neighbour"),)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ended:
    """`rows`: what each of a benchmark's rows says, and whether it passed; None of a program of tests."""

    code: int
    rows: tuple[tuple[str, bool], ...] | None
    counts: str
    shown: bool
    seconds: float


def is_there(program: Program) -> bool:
    if program.benchmark:
        return (ROOT / "benchmarks" / f"{program.benchmark}.py").is_file()
    return all((ROOT / node.partition("::")[0]).is_file() for node in program.tests)


@functools.cache
def run(command: tuple[str, ...]) -> Ended:
    """Once in this process, whoever asks."""
    began = time.monotonic()
    lines = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stderr.write(line)
            lines.append(line.rstrip("\n"))
    code, seconds = process.returncode, time.monotonic() - began
    last = next((line for line in reversed(lines) if line.strip()), "")
    if "pytest" in command:
        counted = COUNT.findall(last)
        shown = any(word == "passed" for _, word in counted)
        return Ended(code, None, ", ".join(f"{number} {word}" for number, word in counted) or last, shown, seconds)
    try:
        report = json.loads(last)
        named = report["rows"] if "rows" in report else [{"what": report["benchmark"], "passed": report["passed"]}]
        rows = tuple((str(row["what"]), bool(row["passed"])) for row in named)
    except (ValueError, KeyError, TypeError):
        return Ended(code or 1, (), f"no report, exit code {code}", False, seconds)
    return Ended(code, rows, "", bool(rows), seconds)


def command_of(program: Program, *, quick: bool) -> tuple[str, ...]:
    if program.tests:
        return (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *program.tests)
    options = ("--quick",) if quick else program.options
    return (sys.executable, "-m", f"benchmarks.{program.benchmark}", *options)


def judge(program: Program, ended: Ended) -> tuple[str, str]:
    """State and counts of one program for one fault."""
    if ended.rows is None:
        if ended.code == 0:
            return ("passed" if ended.shown else "not run"), ended.counts
        return ("not run" if ended.code in NO_TESTS else "failed"), ended.counts
    chosen = [(what, passed) for what, passed in ended.rows if program.rows in what]
    failed = [what for what, passed in chosen if not passed]
    counts = f"{len(chosen) - len(failed)} of {len(chosen)} rows" + "".join(f"; FAIL {what}" for what in failed)
    if not chosen:
        return "failed", ended.counts or "no rows"
    crashed = ended.code != 0 and all(passed for _, passed in ended.rows)
    return ("failed" if failed or crashed else "passed"), counts


def cause(fault: Fault, *, quick: bool) -> Outcome:
    """Runs the fault's programs, those that are there."""
    states, counts, seconds = [], [], 0.0
    for program in fault.programs:
        if not is_there(program):
            name = program.benchmark or next(node for node in program.tests if not is_there(Program(tests=(node,))))
            states.append("not run")
            counts.append(f"{name} is not there")
            continue
        ended = run(command_of(program, quick=quick))
        state, counted = judge(program, ended)
        states.append(state)
        counts.append(counted)
        seconds += ended.seconds
    state = next((one for one in ("failed", "not run") if one in states), "passed")
    return Outcome(fault.name, fault.what, state, "; ".join(counts), round(seconds, 1), fault.lacks)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short counts")
    parser.add_argument("--only", nargs="+", metavar="FAULT", help="such as F7", default=[])
    parser.add_argument("--json", action="store_true", help="outcomes as one JSON object")
    parser.add_argument("--list", action="store_true", help="the faults and their programs, without running them")
    options = parser.parse_args(arguments)
    names = {fault.name for fault in FAULTS}
    if unknown := [name for name in options.only if name.upper() not in names]:
        parser.error(f"--only: {', '.join(unknown)}: one of {', '.join(fault.name for fault in FAULTS)}")
    wanted = {name.upper() for name in options.only} or names
    chosen = [fault for fault in FAULTS if fault.name in wanted]
    if options.list:
        for fault in chosen:
            programs = ", ".join(part.benchmark or " ".join(part.tests) for part in fault.programs)
            print(f"{fault.name:<4} {fault.what}: {programs}")
        return 0
    outcomes = []
    for fault in chosen:
        outcomes.append(cause(fault, quick=options.quick))
        if not options.json:
            show(outcomes[-1])
    states = [outcome.state for outcome in outcomes]
    if options.json:
        print(json.dumps({"quick": options.quick, "faults": [asdict(outcome) for outcome in outcomes]}))
    else:
        print(", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "not run")))
    return 1 if "failed" in states else 3 if "not run" in states else 0


def show(outcome: Outcome) -> None:
    lacks = f" (without: {outcome.lacks})" if outcome.lacks else ""
    line = f"{outcome.fault:<4} {outcome.state:<8} {outcome.what:<62} {outcome.counts}, {outcome.seconds:.0f} s{lacks}"
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
