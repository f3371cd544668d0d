"""`make accept PART=environments`: learning by acting, on tasks that the model has not seen. Long.

python -m benchmarks.accept.environments [--only NAME …] [--quick]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program, program_rows, run, shown_rows
from tools.report import Report

ENVIRONMENTS, ENGINE = "tests/training/environments", "tests/training/engine"
SHOWN: Mapping[str, Sequence[str]] = {
    "every environment keeps the protocol; packages add others; the template works": [
        f"{ENVIRONMENTS}/test_protocol.py"
    ],
    "equations: 3x + 7 = 16 pays 8.5, and sympy agrees with every step": [f"{ENVIRONMENTS}/test_equations.py"],
    "GSM8K's steps and answers": [f"{ENVIRONMENTS}/test_arithmetic.py"],
    "points, strategies and scores; what failed is named and teaches nothing": [f"{ENVIRONMENTS}/test_grading.py"],
    "the office: 24 templates, an expert that solves all, a random one that does not; over HTTP as in process": [
        f"{ENVIRONMENTS}/test_office.py",
        f"{ENVIRONMENTS}/test_office_tools.py",
    ],
    "TheAgentCompany's 175 folders": [f"{ENVIRONMENTS}/test_agent_company.py"],
    "GRPO over episodes: learns in a network namespace, resumes bit for bit, leaves faults out, refuses others' "
    "trajectories, stops on an alarm": [f"{ENGINE}/test_episodes.py"],
    "two processes roll out and learn what one learns": [f"{ENGINE}/test_processes.py"],
    "free calls of tools through TRL, on the rewards that the same calls earn": [
        f"{ENGINE}/test_environment_factory.py",
        f"{ENGINE}/test_trl_environments.py",
    ],
    "code, writing and business: each criterion a component": [f"{ENVIRONMENTS}/test_crafts.py"],
    "an agent with a base URL acts on the weights in training; OpenHands and ART on top of it": [
        f"{ENGINE}/test_served_agents.py",
        f"{ENVIRONMENTS}/test_tool_agent.py",
        f"{ENGINE}/test_art.py",
        "tests/training/adapters",
    ],
    "Harbor's folders and trajectories, verifiers' tasksets, TheAgentCompany in Docker": [
        f"{ENVIRONMENTS}/test_harbor_folders.py",
        "tests/decisions/importers/test_import_harbor.py",
        f"{ENVIRONMENTS}/test_verifiers_taskset.py",
        f"{ENVIRONMENTS}/test_agent_company_docker.py",
    ],
    "an agent solves problems, one and many, recorded as episodes": ["tests/training/solving"],
    "judges: calibrated by people, corrected means, refused below a number of labels and after drift": [
        "tests/decisions/judges",
        "tests/models_registry/statistics/test_prediction_powered.py",
        f"{ENGINE}/test_judging.py",
        "tests/training/test_task_judges.py",
    ],
    "alarms stop a run and keep the best checkpoint": [f"{ENGINE}/test_alarms.py"],
    "runs on tasks, watched, by commands and configuration files": [
        "tests/training/test_task_runs.py",
        "tests/training/test_monitor.py",
        "tests/training/test_train_options.py",
        "tests/training/test_hardware.py",
    ],
    "pages of environments, tasks and episodes": [
        "tests/training/test_environment_pages.py",
        "tests/browser/test_environments_in_browser.py",
        "tests/browser/test_episodes_in_browser.py",
    ],
}
COMPANY = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "theagentcompany" / "tasks"


def shown(report: Report, quick: bool) -> None:
    shown_rows(report, SHOWN)


def episodes(environment: str, *ways: str) -> Callable[[Report, bool], None]:
    """What `benchmarks.episodes` reports of an environment."""

    def rows(report: Report, quick: bool) -> None:
        arguments = ["--environment", environment, "--at-once", "2", "--ways", "return_to_go", *ways]
        program_rows(report, "benchmarks.episodes", *arguments, *(["--quick"] if quick else []))

    return rows


def company(report: Report, quick: bool) -> None:
    """All folders are read, where they are here."""
    if not COMPANY.is_dir():
        report.add("TheAgentCompany's folders", bound="175", figure=f"not at {COMPANY}", passed=False)
        return
    code, told, _ = run([sys.executable, "manage.py", "company_tasks", str(COMPANY), "--json"])
    tasks = json.loads(told)["tasks"] if code == 0 else []
    report.add("TheAgentCompany's folders", bound="175", figure=len(tasks), passed=len(tasks) == 175)


PARTS: Mapping[str, Callable[[Report, bool], None]] = {
    "shown": shown,
    "equations": episodes("equations", "easy_first", "reward_weighted"),
    "office": episodes("office", "episode"),
    "alarms": program("benchmarks.alarms"),
    "judges": program("benchmarks.judges"),
    "company": company,
}


def main() -> int:
    return run_parts("environments", PARTS, description=__doc__, quick="one seed and few updates: no bound holds")


if __name__ == "__main__":
    sys.exit(main())
