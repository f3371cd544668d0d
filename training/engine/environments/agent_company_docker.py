"""A task of TheAgentCompany run for real, in the benchmark's Docker image: what is missing, plan, run, grade. No torch.

    docker run IMAGE · init.sh · the agent · eval.py · docker rm

The agent is a program that the operator names. It runs beside the container and acts in it by `docker exec`; where it
finds its model, its instruction and the container, environment variables tell it. Keys are passed on by their names:
no command line holds one. Services run where the benchmark's own set-up has put them; init.sh resets those that are
needed.

Source: the benchmark's docs/EVALUATION.md and base image, version 1.0.0.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from training.engine.environments.agent_company import CompanyTask, Lack
from training.engine.environments.agent_company_results import fail_all, read_grade
from training.engine.environments.grading import Grade
from training.engine.environments.protocol import EnvironmentFault

IMAGES = "ghcr.io/theagentcompany/{task}-image:{version}"
VERSION = "1.0.0"
MODEL_VARIABLES = ("LITELLM_API_KEY", "LITELLM_BASE_URL", "LITELLM_MODEL")
"""Of the model that plays colleagues and judges, in the benchmark's words."""
KEY = "DECRYPTION_KEY"
"""With it the image opens its evaluator; the benchmark's documentation says what it is."""
GITLAB = "\n\nGitlab username is 'root' and password is 'theagentcompany'"
INSTRUCTION = "Complete the task in /instruction/task.md"
OUTPUTS, TRAJECTORY, RESULT = "/outputs", "trajectory.json", "result.json"
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")
"""Variables that Docker and the agent get. Reckoner's own, with its keys and addresses, stay here."""
QUICK, BEGINNING, GRADING = 30.0, 900.0, 600.0
"""Seconds that a question to Docker, init.sh and eval.py may take; the last two are the benchmark's own limits."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a task runs. `agent`: a program with its arguments. `base_url`, `model` and the variable named
    `key_variable` are where the agent finds its model. `services`: the benchmark's server of services, `hostname` where
    the container finds it. `outputs`: gets a folder for the task."""

    outputs: Path
    agent: Sequence[str]
    base_url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    services: str = "http://localhost:2999"
    hostname: str = "localhost"
    image: str | None = None
    version: str = VERSION
    agent_seconds: float = 3600.0

    def image_of(self, task: CompanyTask) -> str:
        return self.image or IMAGES.format(task=task.id, version=self.version)


class Ran(NamedTuple):
    """A run: its grade, how the agent ended, and where trajectory, result and logs lie."""

    grade: Grade
    agent: str
    folder: Path


class Command(NamedTuple):
    """A step of the plan. `variables` are passed on by name."""

    name: str
    arguments: tuple[str, ...]
    variables: tuple[str, ...] = ()
    seconds: float = QUICK


def needs_model(task: CompanyTask) -> bool:
    """Whether a model plays colleagues or judges. Where nobody says that none judges, one may."""
    return task.needs_npc or task.llm_grader is not False


def find_missing(task: CompanyTask, setting: Setting, variables: Mapping[str, str] = os.environ) -> list[Lack]:
    """Everything that is not there, each with what to do about it. Asks Docker and the services; changes nothing."""
    lacks = [*_ask_docker(setting.image_of(task), variables)]
    for service in task.services:
        if (why := _ask_service(setting.services, service)) is not None:
            lacks.append(Lack("services", f"{service} is not ready at {setting.services}: {why}"))
    if needs_model(task) and (unset := [name for name in MODEL_VARIABLES if not variables.get(name)]):
        lacks.append(Lack("llm", f"set {', '.join(unset)}: a model plays its colleagues or judges it"))
    if not variables.get(KEY):
        lacks.append(Lack("evaluator", f"set {KEY}, which the benchmark's docs/EVALUATION.md names"))
    if not setting.agent or shutil.which(setting.agent[0], path=variables.get("PATH")) is None:
        lacks.append(
            Lack("agent", f"no program {setting.agent[0] if setting.agent else ''!r} can be run: name the agent's")
        )
    if not variables.get(setting.key_variable):
        lacks.append(Lack("agent", f"set {setting.key_variable}: the key for {setting.base_url}"))
    if (folder := setting.outputs / task.id).exists():
        lacks.append(Lack("outputs", f"{folder} exists already: name another folder, or remove it"))
    return lacks


def plan(task: CompanyTask, setting: Setting, name: str = "NAME") -> list[Command]:
    """What `run` does, in order, in a container of this name, which is removed at the end in any case."""
    folder = (setting.outputs / task.id).resolve()
    models = MODEL_VARIABLES if needs_model(task) else ()
    graded = ("--trajectory_path", f"{OUTPUTS}/{TRAJECTORY}", "--result_path", f"{OUTPUTS}/{RESULT}")
    start = ("docker", "run", "--detach", "--name", name, "--network", "host", "--volume", f"{folder}:{OUTPUTS}")
    return [
        Command("start", (*start, setting.image_of(task), "sleep", "infinity"), (), BEGINNING),
        Command(
            "init",
            _exec(name, (*models, f"SERVER_HOSTNAME={setting.hostname}"), "bash", "/utils/init.sh"),
            models,
            BEGINNING,
        ),
        Command("agent", tuple(setting.agent), (setting.key_variable,), setting.agent_seconds),
        Command(
            "grade", _exec(name, (*models, KEY), "python_default", "/utils/eval.py", *graded), (*models, KEY), GRADING
        ),
        Command("remove", ("docker", "rm", "--force", name)),
    ]


def run(task: CompanyTask, setting: Setting, variables: Mapping[str, str] = os.environ) -> Ran:
    """Runs the plan. Raises EnvironmentFault where the container cannot be started or set up, or leaves a result that
    is none: then nothing is known of the agent. An agent that fails or is too slow is graded by what it has done."""
    name = f"reckoner-{task.id}-{secrets.token_hex(4)}"  # no other container is removed by mistake
    start, init, agent, grade, remove = plan(task, setting, name)
    folder = setting.outputs / task.id
    folder.mkdir(parents=True)
    told = _for_agent(task, setting, name, folder) | {"OPENAI_API_KEY": variables[setting.key_variable]}
    try:
        for command in (start, init):
            ended = _run(command, variables, folder)
            if ended.returncode != 0:
                raise EnvironmentFault(f"{command.name}: docker ended with {ended.returncode}: {_last(ended)}")
        ended_as = _run_agent(agent, _passed_on(variables) | told, folder)
        graded = _run(grade, variables, folder)
    finally:
        _run(remove, variables, folder)
    if graded.returncode != 0:
        return Ran(fail_all(task, f"the evaluator ended with {graded.returncode}: {_last(graded)}"), ended_as, folder)
    return Ran(read_grade(task, folder / RESULT, graded.stdout + graded.stderr), ended_as, folder)


def _exec(name: str, variables: Sequence[str], *command: str) -> tuple[str, ...]:
    given = [part for variable in variables for part in ("--env", variable)]
    return ("docker", "exec", *given, name, *command)


def _passed_on(variables: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    return {name: variables[name] for name in (*PASSED_ON, *more) if name in variables}


def _for_agent(task: CompanyTask, setting: Setting, container: str, folder: Path) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": setting.base_url,
        "OPENAI_MODEL": setting.model,
        "TASK_CONTAINER": container,
        "TASK_INSTRUCTION": INSTRUCTION + (GITLAB if "gitlab" in task.services else ""),
        "TASK_TRAJECTORY": str(folder.resolve() / TRAJECTORY),
    }


def _run(command: Command, variables: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Raises EnvironmentFault where it takes too long or cannot be run. What it prints is kept beside the result."""
    try:
        ended = subprocess.run(  # noqa: S603 - the plan's own command
            command.arguments,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=command.seconds,
            env=_passed_on(variables, command.variables),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"{command.name}: took longer than {command.seconds:g} s") from error
    except OSError as error:
        raise EnvironmentFault(f"{command.name}: {error}") from error
    (folder / f"{command.name}.log").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    return ended


def _run_agent(command: Command, variables: Mapping[str, str], folder: Path) -> str:
    """How it ended, in words. It has a session of its own, so that what it started ends with it."""
    with (folder / "agent.log").open("wb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator names the program
                command.arguments, stdout=log, stderr=subprocess.STDOUT, env=dict(variables), start_new_session=True
            )
        except OSError as error:
            raise EnvironmentFault(f"agent: {error}") from error
        try:
            return f"ended with {process.wait(command.seconds)}"
        except subprocess.TimeoutExpired:
            return f"was ended after {command.seconds:g} s"
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        return
    process.wait()


def _ask_docker(image: str, variables: Mapping[str, str]) -> list[Lack]:
    docker = shutil.which("docker", path=variables.get("PATH"))
    if docker is None:
        return [Lack("docker", "docker is not on the PATH: install it")]
    if (why := _ask([docker, "version", "--format", "{{.Server.Version}}"], variables)) is not None:
        return [Lack("docker", f"Docker's daemon does not answer: {why}")]
    if _ask([docker, "image", "inspect", "--format", "{{.Id}}", image], variables) is not None:
        return [Lack("image", f"the image is not here: docker pull {image}")]
    return []


def _ask(command: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Why it failed; None where it did not."""
    try:
        ended = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=QUICK, env=_passed_on(variables), check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if ended.returncode == 0 else _last(ended)


def _ask_service(address: str, service: str) -> str | None:
    """Why it is not ready; None where it is."""
    asked = urllib.request.Request(f"{address}/api/healthcheck/{service}", method="HEAD")  # noqa: S310 - the operator's
    try:
        with urllib.request.urlopen(asked, timeout=QUICK):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"status {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def _last(ended: subprocess.CompletedProcess[str]) -> str:
    """The last line that it printed, errors first."""
    return next(
        (text.strip().splitlines()[-1] for text in (ended.stderr, ended.stdout) if text.strip()), "it said nothing"
    )
