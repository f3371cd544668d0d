"""TheAgentCompany's folders are read whole, or their faults are named; without its evaluator no task is gradable."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from training.engine.environments.agent_company import (
    SERVICES,
    CompanyTask,
    Here,
    Wanted,
    choose,
    read_company,
    read_folder,
    why_not_gradable,
)
from training.engine.environments.agent_company_checkpoints import NoCheckpoints, read_checkpoints
from training.engine.environments.grading import Strategy

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "theagentcompany" / "tasks"
TWO = "# Checkpoints\n\n3 points in total.\n## Checkpoint 1 (1pt)\n\nAsked Mia.\n\n## Checkpoint 2 (2 points)\nSent.\n"
EITHER = "Checkpoint 1's credit is granted as long as either checkpoint 1 or checkpoint {} passes."
MIA = {"Mia": {"extra_info": "You will be asked for the date.", "strategy_hint": "Say Tuesday."}}


def make(place: Path, name: str, **files: str) -> Path:
    """A task folder; a file whose text is empty is left out."""
    texts = {"task_md": "Ask Mia.", "checkpoints_md": TWO, "dependencies_yml": "- rocketchat\n"} | files
    folder = place / name
    folder.mkdir()
    for file, text in texts.items():
        if text:
            (folder / ".".join(file.rsplit("_", 1))).write_text(text, encoding="utf-8")
    return folder


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("company_tasks", *arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.mark.skipif(not REAL.is_dir(), reason=f"needs {REAL}")
def test_all_folders_of_the_benchmark_are_read() -> None:
    tasks, faults = read_company(REAL)
    assert faults == []
    assert len(tasks) == 175
    # Headings with points in the files add up to 769; one file lists its three checkpoints of 2 points as items.
    assert sum(task.points for task in tasks) == 769 + 6
    assert Counter(task.strategy for task in tasks) == {Strategy.SUM: 144, Strategy.FINAL: 30, Strategy.ANY_OF: 1}
    assert Counter(service for task in tasks for service in task.services) == {
        "rocketchat": 79,
        "gitlab": 71,
        "owncloud": 70,
        "plane": 17,
    }
    assert (sum(task.needs_npc for task in tasks), sum(len(task.colleagues) for task in tasks)) == (40, 130)
    assert Counter(task.domain for task in tasks).most_common(3) == [("sde", 69), ("hr", 29), ("pm", 28)]
    assert {
        task.id: (task.points, task.stated_points) for task in tasks if task.stated_points not in (None, task.points)
    } == {
        "admin-collect-requests-and-compute-total-price": (4, 3),
        "admin-remove-pages-pdf": (3, 4),
        "ds-coffee-shop-database-management": (10, 7),
        "ds-janusgraph-exercise": (6, 4),
        "example": (5, 6),
    }
    assert [task.id for task in tasks if task.llm_grader] == [
        "admin-ask-for-upgrade-reimbursement",
        "admin-check-employees-budget-and-reply-and-record",
        "sde-move-page-to-cloud",
        "sde-pitch-idea-to-manager",
    ]
    # None brings its evaluator: nothing is gradable, whatever else were here.
    everything = Here(frozenset(SERVICES), evaluators=True, npc=True, llm_grader=True)
    assert {tuple(lack.kind for lack in why_not_gradable(task, everything)) for task in tasks} == {("evaluator",)}


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    folder = make(tmp_path, "hr-ask-mia", scenarios_json=json.dumps(MIA))
    (folder / "data").mkdir()
    (folder / "data" / "dates.csv").write_text("a,b\n")
    task = read_folder(folder)
    assert isinstance(task, CompanyTask)
    assert (task.id, task.domain, task.text) == ("hr-ask-mia", "hr", "Ask Mia.")
    assert (task.services, task.files) == (("rocketchat",), ("data/dates.csv",))
    assert [(one.name, one.points, one.text) for one in task.checkpoints] == [
        ("Checkpoint 1", 1, "Asked Mia."),
        ("Checkpoint 2", 2, "Sent."),
    ]
    assert (task.points, task.stated_points, task.strategy, task.llm_grader) == (3, 3, Strategy.SUM, None)
    assert [(one.name, one.strategy_hint) for one in task.colleagues] == [("Mia", "Say Tuesday.")]
    assert [lack.kind for lack in why_not_gradable(task)] == ["evaluator", "image", "services", "npc"]


def test_with_its_evaluator_and_all_that_it_needs_a_task_is_gradable(tmp_path: Path) -> None:
    graded = "from scoring import Result\n"
    make(tmp_path, "ds-count", dependencies_yml="# none\n", evaluator_py=graded)
    make(tmp_path, "hr-judge", scenarios_json=json.dumps(MIA), evaluator_py=f"{graded}evaluate_with_llm(text)\n")
    count, judge = read_company(tmp_path)[0]
    assert (count.llm_grader, judge.llm_grader) == (False, True)
    assert [lack.kind for lack in why_not_gradable(count)] == ["image"]
    assert why_not_gradable(count, Here(evaluators=True)) == ()
    almost = Here(frozenset({"rocketchat"}), evaluators=True, npc=True)
    assert [lack.reason for lack in why_not_gradable(judge, almost)] == ["a checkpoint needs an LLM grader"]
    assert why_not_gradable(judge, almost._replace(llm_grader=True)) == ()
    assert choose([count, judge], Wanted(gradable=True), almost) == [count]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"task_md": ""}, "bad/task.md: is missing"),
        ({"task_md": " \n"}, "bad/task.md: is empty"),
        (
            {"checkpoints_md": "# Checkpoints\n\nNothing.\n"},
            "bad/checkpoints.md: has no checkpoint with points",
        ),
        ({"checkpoints_md": "## Checkpoint 1 (0pt)\n"}, "bad/checkpoints.md: Checkpoint 1: is worth nothing"),
        ({"dependencies_yml": ""}, "bad/dependencies.yml: is missing"),
        ({"dependencies_yml": "- plane\n- [\n"}, "bad/dependencies.yml: is not valid YAML at line 3"),
        ({"dependencies_yml": "plane: 1\n"}, "bad/dependencies.yml: must be a list of services"),
        ({"dependencies_yml": "- jira\n"}, "bad/dependencies.yml: unknown service 'jira'; known: gitlab, owncloud"),
        ({"dependencies_yml": "- {a: 1}\n"}, "bad/dependencies.yml: unknown service that is no text"),
        ({"scenarios_json": "{"}, "bad/scenarios.json: is not valid JSON"),
        ({"scenarios_json": "[]"}, "bad/scenarios.json: must be an object with a scenario"),
        ({"scenarios_json": '{"Mia": {"mood": "good"}}'}, "bad/scenarios.json: Mia: must be an object with only"),
        ({"scenarios_json": '{"Mia": "good"}'}, "bad/scenarios.json: Mia: must be an object with only"),
    ],
)
def test_a_fault_names_folder_file_and_reason_and_the_others_are_read(
    tmp_path: Path, files: dict[str, str], fault: str
) -> None:
    make(tmp_path, "bad", **files)
    make(tmp_path, "hr-good")
    (tmp_path / ".git").mkdir()
    tasks, faults = read_company(tmp_path)
    assert [task.id for task in tasks] == ["hr-good"]
    assert len(faults) == 1
    assert str(faults[0]).startswith(fault)


def test_all_faults_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    folder = make(tmp_path, "bad", task_md="", dependencies_yml="- jira\n")
    (folder / "scenarios.json").write_bytes(b'{"Mia\xff": {}}')
    assert [(one.file, one.reason[:14]) for one in read_company(tmp_path)[1]] == [
        ("task.md", "is missing"),
        ("dependencies.yml", "unknown servic"),
        ("scenarios.json", "is not UTF-8 a"),
    ]


@pytest.mark.parametrize(
    ("said", "strategy", "given", "rules"),
    [
        ("", Strategy.SUM, (), 0),
        ("If the last check passes, then full credits are\ngranted.", Strategy.FINAL, (), 0),
        ("If the final checkpoint is complete, then all points are rewarded.", Strategy.FINAL, (), 0),
        ("If the second checkpoint pass, we should give the full score.", Strategy.FINAL, (), 0),
        ("If the third checkpoint pass, we should give the full score.", Strategy.SUM, (), 0),
        ("If all checks pass, then full credits are granted.", Strategy.SUM, (), 0),
        (
            "Checkpoint 1's credit is granted as long as either checkpoint 1 or checkpoint 2 passes.",
            Strategy.ANY_OF,
            (1, 2),
            0,
        ),
        (
            "Checkpoint 1's credit is granted as long as either checkpoint 1 or checkpoint 9 passes.",
            Strategy.SUM,
            (),
            0,
        ),
        ("Good. Only pass the first checkpoint can test the second checkpoint.", Strategy.SUM, (), 1),
    ],
)
def test_the_text_says_which_bonus(said: str, strategy: Strategy, given: tuple[int, ...], rules: int) -> None:
    told = read_checkpoints(f"# Checkpoints\n{said}\n## Checkpoint 1 (1pt)\nA\n# Final checkpoint ( 2 pts )\nB")
    assert (told.strategy, told.given, len(told.rules)) == (strategy, given, rules)
    assert [one.points for one in told.asked] == [1, 2]


def test_items_are_checkpoints_too() -> None:
    told = read_checkpoints("The task has 4 points in total\n1. [2pts] One\n2. [2pts] Two\nmore")
    assert [(one.name, one.points, one.text) for one in told.asked] == [
        ("Checkpoint 1", 2, "One"),
        ("Checkpoint 2", 2, "Two\nmore"),
    ]
    with pytest.raises(NoCheckpoints):
        read_checkpoints("2 points in total")


def test_the_command_shows_filters_and_says_what_is_gradable(tmp_path: Path) -> None:
    make(tmp_path, "hr-ask-mia", scenarios_json=json.dumps(MIA))
    make(tmp_path, "sde-fix", dependencies_yml="- gitlab\n- plane\n")
    make(tmp_path, "sde-judge", checkpoints_md=f"{TWO}As judged by LLM.\n", dependencies_yml="- gitlab\n")

    def shown(*filters: str) -> list[str]:
        code, out, err = run(str(tmp_path), "--json", *filters)
        assert (code, err) == (0, "")
        told: dict[str, Any] = json.loads(out)
        assert (told["read"], told["points"], told["gradable"], told["faults"]) == (3, 9, 0, [])
        return [task["id"] for task in told["tasks"]]

    assert shown() == ["hr-ask-mia", "sde-fix", "sde-judge"]
    assert shown("--domain", "sde") == shown("--service", "gitlab") == shown("--npc", "no") == ["sde-fix", "sde-judge"]
    assert shown("--domain", "hr", "--domain", "sde", "--service", "plane") == ["sde-fix"]
    assert shown("--npc", "yes") == ["hr-ask-mia"]
    assert shown("--llm-grader", "yes") == ["sde-judge"]
    assert shown("--gradable") == []
    task = json.loads(run(str(tmp_path), "--json", "--npc", "yes")[1])["tasks"][0]
    assert (task["points"], task["gradable"], task["why_not"][0]) == (3, False, "the folder has no evaluator")

    code, out, _ = run(str(tmp_path), "--gradable")
    assert (code, out.splitlines()[:3]) == (
        0,
        [
            "0 of 3 tasks shown; all have 9 points in 6 checkpoints.",
            "0 can be graded here. Of all tasks",
            "    3 bring no evaluator, the program that decides what a checkpoint has earned",
        ],
    )


def test_the_command_s_exit_codes(tmp_path: Path) -> None:
    make(tmp_path, "hr-ask-mia")
    assert run(str(tmp_path), "--domain", "law")[::2] == (2, "--domain: unknown law; known: hr\n")
    make(tmp_path, "bad", task_md="")
    code, out, err = run(str(tmp_path))
    assert (code, err) == (1, "bad/task.md: is missing\n")
    assert out.startswith("hr-ask-mia")
    code, out, err = run(str(tmp_path / "bad"))
    assert (code, out) == (2, "")
    assert "is not a folder" in run(str(tmp_path / "none"))[2]
