"""Harbor's task folders are read whole, or every fault is named; our own tasks come back equal and are graded."""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command

from training.engine.environments.harbor.folders import HarborTask, read_folder, read_harbor
from training.engine.environments.harbor.needs import why_not_gradable
from training.engine.environments.harbor.serving import WorldServer
from training.engine.environments.harbor.writing import NotOurs, read_own_task, write_folder
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.registry import find_environment

CONFIG = """
schema_version = "1.4"
[task]
name = "notes/count-words"
[verifier.env]
JUDGE_KEY = "${JUDGE_KEY}"
MODEL = "${MODEL:-small}"
[environment]
cpus = 2
gpus = 1
"""
COMPOSE = "services:\n  main: {}\n  database: {image: 'postgres:18'}\n"
DOCKERFILE = "FROM --platform=linux/amd64 ubuntu:24.04 AS base\nRUN apt-get update && \\\n  apt-get install -y gcc\n"


def make(place: Path, **changed: str | None) -> Path:
    """A task folder; a file that is None is left out."""
    files = {
        "task.toml": CONFIG,
        "instruction.md": "<!-- canary 123 -->\n\nCount the words.\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/docker-compose.yaml": COMPOSE,
        "tests/test.sh": "uvx pytest /tests && echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "wc -w < notes > words\n",
    }
    for name, text in (files | changed).items():
        if text is not None:
            path = place / "count-words" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return place / "count-words"


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_a_folder_says_what_it_asks_for_and_what_is_missing_here(tmp_path: Path) -> None:
    task = read_folder(make(tmp_path))
    assert isinstance(task, HarborTask)
    assert (task.name, task.solution, task.parts[0].script) == ("notes/count-words", True, "tests/test.sh")
    assert task.parts[0].instruction == "Count the words."  # without the canary
    assert (task.images, task.services, task.variables) == (("ubuntu:24.04",), ("database",), ("JUDGE_KEY",))
    lacks = {lack.kind: lack.reason for lack in why_not_gradable(task)}
    assert set(lacks) == {"image", "services", "downloads", "gpu", "variables"}
    assert lacks["downloads"] == "it fetches something by apt-get, uvx"
    code, out, _ = run("harbor_tasks", str(tmp_path), "--json")
    report = json.loads(out)
    assert (code, report["read"], report["gradable"]) == (0, 1, 0)
    assert report["tasks"][0]["why_not"] == [lack.reason for lack in why_not_gradable(task)]


def test_a_task_of_several_steps_has_a_part_for_each(tmp_path: Path) -> None:
    steps = {
        f"steps/{name}/{file}": "Do it." for name in ("plan", "build") for file in ("instruction.md", "tests/test.sh")
    }
    config = '[environment]\ndocker_image = "notes:1"\n[[steps]]\nname = "plan"\n[[steps]]\nname = "build"\n'
    task = read_folder(make(tmp_path, **steps, **{"task.toml": config, "instruction.md": None, "tests/test.sh": None}))
    assert isinstance(task, HarborTask)
    assert [part.script for part in task.parts] == ["steps/plan/tests/test.sh", "steps/build/tests/test.sh"]
    assert (task.name, task.images) == ("count-words", ("notes:1",))


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        ({"task.toml": "[task"}, ["task.toml: is not valid TOML"]),
        (
            {"task.toml": '[task]\nname = "x"\n[environment]\ncpus = "many"\nallowed_hosts = ["a.org"]\nos = "plan9"'},
            ["task.toml: task.name: String should match", "environment.cpus: Input should be a valid number",
             "environment.os: Input should be 'linux' or 'windows'"],
        ),
        (
            {"instruction.md": " ", "tests/test.sh": None, "environment/Dockerfile": "RUN x",
             "environment/docker-compose.yaml": "- a"},
            ["instruction.md: is empty", "tests/test.sh: is missing: the script that writes /logs/verifier/reward.txt",
             "environment/Dockerfile: has no FROM", "environment/docker-compose.yaml: must be an object"],
        ),
        (
            {"task.toml": '[environment]\nnetwork_mode = "public"\nallowed_hosts = ["a.org"]'},
            ["allowed_hosts needs network_mode"],
        ),
    ],
)  # fmt: skip
def test_every_fault_of_a_folder_is_named(tmp_path: Path, changed: dict[str, Any], faults: list[str]) -> None:
    found = read_folder(make(tmp_path, **changed))
    assert isinstance(found, list)
    assert len(found) == len(faults), found
    assert all(any(fault in str(one) for one in found) for fault in faults), found
    code, out, err = run("harbor_tasks", str(tmp_path))
    assert (code, out) == (2, "")
    assert all(fault in err for fault in faults)


def test_a_file_that_leads_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    place = make(tmp_path, **{"instruction.md": None})
    (tmp_path / "secret").write_text("not for agents")
    (place / "instruction.md").symlink_to("../secret")
    assert [str(one) for one in read_harbor(place)[1]] == [
        "count-words/instruction.md: leads out of the task's folder; it must be a file in it"
    ]


@contextmanager
def serving(server: WorldServer) -> Iterator[dict[str, str]]:
    """The variables under which the scripts of a folder find the world."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    with server:
        thread.start()
        try:
            yield {"PATH": os.environ["PATH"], "RECKONER_WORLD": server.address}
        finally:
            server.shutdown()
            thread.join()


def test_our_tasks_come_back_equal_and_are_graded_by_what_was_left_behind(tmp_path: Path) -> None:
    code, out, _ = run(
        "write_harbor_tasks", "office", str(tmp_path / "tasks"), "--tasks", "2", "--first", "4", "--json"
    )
    assert (code, len(json.loads(out)["written"])) == (0, 2)
    tasks, faults = read_harbor(tmp_path / "tasks")
    assert faults == []
    assert [why_not_gradable(task) for task in tasks] == [(), ()]
    place = tmp_path / "tasks" / tasks[0].folder
    task = read_own_task(place, tasks[0])
    assert task == find_environment("office").draw_task(4, "heldout")
    # The agent's container is built of these files alone: what is right must not be among them.
    assert "plan" not in (place / "instruction.md").read_text() + (place / "environment" / "Dockerfile").read_text()
    logs = tmp_path / "logs"
    for solved in (False, True):
        with serving(WorldServer(task)) as variables:
            variables |= {"VERIFIER_LOGS": str(logs)}
            if solved:
                subprocess.run(["sh", place / "solution" / "solve.sh"], env=variables, check=True)
            subprocess.run(["sh", place / "tests" / "test.sh"], env=variables, check=True)
        assert json.loads((logs / "reward.json").read_text())["solved"] == float(solved)


def test_an_agent_gets_no_grade_and_its_mistakes_change_nothing() -> None:
    server = WorldServer(find_environment("equations").draw_task(1, "heldout"))

    def ask(path: str, body: str | None = None) -> tuple[int, dict[str, Any]]:
        asked = urllib.request.Request(server.address + path, body.encode() if body is not None else None)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    with serving(server):
        before = ask("/world")[1]
        assert ask("/grade") == (403, {"error": "only the verifier may ask for the grade"})
        wrong = ['{"action": "guess"}', '{"tool": "fly", "arguments": {}}', "[]", "{", '{"action": 1}']
        assert [ask("/call", body)[0] for body in wrong] == [400] * 5
        assert ask("/call/x", "{}")[0] == ask("/facts")[0] == 404
        assert (ask("/world")[1], before["done"], server.world.steps) == (before, False, 0)


def test_a_grader_that_fails_leaves_no_reward(tmp_path: Path) -> None:
    task = find_environment("equations").draw_task(1, "heldout")
    place = write_folder(task, tmp_path, image="reckoner:cpu")

    class Broken(WorldServer):
        def grade(self) -> dict[str, Any]:
            raise EnvironmentFault("the grader failed")

    with serving(Broken(task)) as variables:
        variables |= {"VERIFIER_LOGS": str(tmp_path / "logs")}
        ended = subprocess.run(["sh", place / "tests" / "test.sh"], env=variables, capture_output=True, check=False)
    assert ended.returncode != 0
    assert not (tmp_path / "logs").exists()


def test_what_is_not_ours_is_not_read_as_ours_and_nothing_is_overwritten(tmp_path: Path) -> None:
    foreign = read_folder(make(tmp_path))
    assert isinstance(foreign, HarborTask)
    with pytest.raises(NotOurs, match=r"metadata\.reckoner"):
        read_own_task(tmp_path / foreign.folder, foreign)
    task = find_environment("equations").draw_task(0, "heldout")
    place = write_folder(task, tmp_path, image="reckoner:cpu")
    other = msgspec.structs.replace(task, environment="office")
    (place / "environment" / "world" / "task.json").write_bytes(msgspec.json.encode(other))
    ours = read_folder(place)
    assert isinstance(ours, HarborTask)
    with pytest.raises(NotOurs, match="is of environment 'office'"):
        read_own_task(place, ours)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = run("write_harbor_tasks", "equations", str(tmp_path), "--tasks", "2")
    assert (code, "equations-heldout-0 already" in err) == (2, True)
    code, _, err = run("write_harbor_tasks", "office-unseen", str(tmp_path), "--tasks", "0", "--split", "train")
    assert (code, "--tasks: 0" in err, "--split: office-unseen draws heldout" in err) == (2, True, True)
    assert sorted(tmp_path.rglob("*")) == before
