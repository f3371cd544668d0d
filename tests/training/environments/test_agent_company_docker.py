"""A task of TheAgentCompany is run by strict calls of Docker, or all that is missing is named and nothing is run.

There is no Docker here: a stub takes the calls that a run makes, and refuses any other.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from django.core.management import call_command

from training.engine.environments.agent_company import CompanyTask, read_folder
from training.engine.environments.agent_company_docker import MODEL_VARIABLES, Ran, Setting, find_missing, run
from training.engine.environments.agent_company_results import read_grade
from training.engine.environments.protocol import EnvironmentFault

STUB = Path(__file__).with_name("docker_stub") / "docker.py"
IMAGE = "ghcr.io/theagentcompany/hr-ask-mia-image:1.0.0"
AGENT = """
import json, os, pathlib, subprocess
secrets = {"DATABASE_URL", "DECRYPTION_KEY", "LITELLM_API_KEY"} & set(os.environ)
assert not secrets, secrets
assert os.environ["OPENAI_BASE_URL"] == "http://127.0.0.1:8000/v1", os.environ
assert os.environ["OPENAI_API_KEY"] == "agent-key" and os.environ["OPENAI_MODEL"] == "worker@champion"
assert os.environ["TASK_INSTRUCTION"].startswith("Complete the task in /instruction/task.md\\n\\nGitlab username")
pathlib.Path(os.environ["TASK_TRAJECTORY"]).write_text("[]")
subprocess.run(["docker", "exec", os.environ["TASK_CONTAINER"], "bash", "-c", "echo done"], check=True)
"""


@pytest.fixture
def task(tmp_path: Path) -> CompanyTask:
    folder = tmp_path / "hr-ask-mia"
    folder.mkdir()
    (folder / "task.md").write_text("Ask Mia, and write an issue.")
    (folder / "checkpoints.md").write_text("## Checkpoint 1 (1pt)\n\nAsked.\n\n## Checkpoint 2 (2pts)\n\nWritten.\n")
    (folder / "dependencies.yml").write_text("- gitlab\n")
    (folder / "scenarios.json").write_text('{"Mia": {"extra_info": "It is Tuesday."}}')
    found = read_folder(folder)
    assert isinstance(found, CompanyTask)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for the PATH that has the stub and nothing else."""
    folder = tmp_path / "bin"
    (folder / "state" / "containers").mkdir(parents=True)
    (folder / "state" / "images").write_text(IMAGE)
    script = folder / "docker"
    script.write_text(f"#!{sys.executable} -IS\n{STUB.read_text()}")
    script.chmod(0o755)
    return folder


@pytest.fixture
def services() -> Iterator[str]:
    """A server of services where GitLab is ready, and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path == "/api/healthcheck/gitlab" else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def setting(tmp_path: Path, services: str, agent: str = AGENT, seconds: float = 20.0) -> Setting:
    program = tmp_path / "agent.py"
    program.write_text(agent)
    return Setting(
        outputs=tmp_path / "outputs",
        agent=[sys.executable, str(program)],
        base_url="http://127.0.0.1:8000/v1",
        model="worker@champion",
        key_variable="WORKER_KEY",
        services=services,
        agent_seconds=seconds,
    )


def variables(place: Path) -> dict[str, str]:
    models = dict.fromkeys(MODEL_VARIABLES, "set")
    return {
        "PATH": str(place),
        "DATABASE_URL": "secret",
        "DECRYPTION_KEY": "key-of-files",
        "WORKER_KEY": "agent-key",
        **models,
    }


def run_with(task: CompanyTask, tmp_path: Path, place: Path, services: str) -> Ran:
    chosen = setting(tmp_path, services)
    assert find_missing(task, chosen, variables(place)) == []
    return run(task, chosen, variables(place))


def calls(place: Path) -> list[list[str]]:
    return [json.loads(line) for line in (place / "calls").read_text().splitlines()]


def test_a_task_is_run_by_the_agent_and_graded_by_the_evaluators_own_points(
    task: CompanyTask, tmp_path: Path, place: Path, services: str
) -> None:
    ran = run_with(task, tmp_path, place, services)
    assert (tmp_path / "outputs" / "hr-ask-mia" / "agent.log").read_text() == ""
    assert (ran.agent, ran.grade.points, ran.grade.score, ran.grade.trainable) == ("ended with 0", 3, 1.0, True)
    assert [call[0] for call in calls(place)] == ["version", "image", "run", "exec", "exec", "exec", "rm"]
    assert not any(secret in part for call in calls(place) for part in call for secret in ("agent-key", "key-of-files"))
    assert [*(place / "state" / "containers").iterdir()] == []


def test_a_grader_that_fails_is_named_counts_as_not_passed_and_is_not_trained_on(
    task: CompanyTask, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    points = [{"total": 1, "result": 0}, {"total": 2, "result": 2}]
    result.write_text(json.dumps({"checkpoints": points, "final_score": {"total": 3, "result": 3}}))
    grade = read_grade(task, result, "WARNING\nERROR:root:Error in grade_checkpoint1: GitLab said 500\n")
    assert (grade.points, grade.failed) == (3, ("Checkpoint 1",))
    assert grade.checkpoints[0].error == "grade_checkpoint1: GitLab said 500"
    with pytest.raises(EnvironmentFault, match="GitLab said 500"):
        grade.reward()


def test_a_container_that_fails_gives_no_grade_and_is_removed(
    task: CompanyTask, tmp_path: Path, place: Path, services: str
) -> None:
    (place / "state" / "init-fails").touch()
    with pytest.raises(EnvironmentFault, match="init: docker ended with 1: gitlab is not healthy"):
        run_with(task, tmp_path, place, services)
    assert [call[0] for call in calls(place)] == ["version", "image", "run", "exec", "rm"]


def test_a_slow_agent_is_ended_and_graded_and_an_evaluator_that_fails_as_a_whole_fails_all_checkpoints(
    task: CompanyTask, tmp_path: Path, place: Path, services: str
) -> None:
    (place / "state" / "evaluator-fails").touch()
    chosen = setting(tmp_path, services, agent="import time\ntime.sleep(60)\n", seconds=0.1)
    ran = run(task, chosen, variables(place))
    assert ran.agent == "was ended after 0.1 s"
    assert (ran.grade.points, ran.grade.score, ran.grade.failed) == (0, 0.0, ("Checkpoint 1", "Checkpoint 2"))
    assert ran.grade.checkpoints[1].error == "the evaluator ended with 1: Failed to grade the task"


def test_everything_that_is_missing_is_named(task: CompanyTask, tmp_path: Path, place: Path, services: str) -> None:
    chosen = setting(tmp_path, services)
    (place / "state" / "images").write_text("")
    (tmp_path / "outputs" / "hr-ask-mia").mkdir(parents=True)
    bare = {"PATH": str(place)}
    found = {lack.kind: lack.reason for lack in find_missing(task, chosen, bare)}
    assert found == {
        "image": f"the image is not here: docker pull {IMAGE}",
        "llm": "set LITELLM_API_KEY, LITELLM_BASE_URL, LITELLM_MODEL: a model plays its colleagues or judges it",
        "evaluator": "set DECRYPTION_KEY, which the benchmark's docs/EVALUATION.md names",
        "agent": "set WORKER_KEY: the key for http://127.0.0.1:8000/v1",
        "outputs": f"{tmp_path / 'outputs' / 'hr-ask-mia'} exists already: name another folder, or remove it",
    }
    (place / "state" / "no-daemon").touch()
    assert find_missing(task, chosen, bare)[0].reason.endswith("does not answer: Cannot connect to the Docker daemon")
    assert find_missing(task, chosen, {"PATH": ""})[0].reason == "docker is not on the PATH: install it"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "No such file"),
        ('{"checkpoints": [], "final_score": {"total": 1, "result": 0}}', "do not add up"),
        ('{"checkpoints": [{"total": 1, "result": 2}], "final_score": {"total": 1, "result": 1}}', "2 of 1 points"),
        ('{"final_score": 3}', "final_score"),
    ],
)
def test_a_result_that_is_none_is_no_grade(task: CompanyTask, tmp_path: Path, result: str | None, why: str) -> None:
    path = tmp_path / "result.json"
    if result is not None:
        path.write_text(result)
    with pytest.raises(EnvironmentFault, match=why):
        read_grade(task, path, "")


def test_the_command_shows_the_plan_and_refuses_with_all_that_is_missing(
    task: CompanyTask, tmp_path: Path, place: Path, services: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*more: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        arguments = [str(tmp_path / task.id), "--agent", f"{sys.executable} {tmp_path / 'agent.py'}", "--outputs"]
        arguments += [str(tmp_path / "outputs"), "--base-url", "http://127.0.0.1:8000/v1", "--model", "worker@champion"]
        arguments += ["--key-variable", "WORKER_KEY", "--services", services, *more]
        try:
            call_command("company_run", *arguments, stdout=out, stderr=err)
        except SystemExit as end:
            return int(str(end.code)), out.getvalue(), err.getvalue()
        return 0, out.getvalue(), err.getvalue()

    setting(tmp_path, services)
    for name, value in variables(place).items():
        if name != "DATABASE_URL":
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORKER_KEY")
    code, out, err = command("--plan")
    assert (code, err) == (2, "agent: set WORKER_KEY: the key for http://127.0.0.1:8000/v1\n")
    assert [line.split()[0] for line in out.splitlines()] == ["start", "init", "agent", "grade", "remove"]
    assert not (tmp_path / "outputs").exists()
    monkeypatch.setenv("WORKER_KEY", "agent-key")
    code, out, _ = command("--plan", "--json")
    assert (code, json.loads(out)["missing"], len(json.loads(out)["plan"])) == (0, [], 5)
    (place / "state" / "errors").write_text("Error in check_all: no network\n")
    code, out, err = command("--json")
    assert (code, json.loads(out)["grade"]["failed"]) == (1, ["Checkpoint 1", "Checkpoint 2"])
    assert err.startswith("Checkpoint 1: counts as not passed, its evaluator failed: check_all: no network")
    assert command("--agent-seconds", "0", "--services", "x")[0] == 2
