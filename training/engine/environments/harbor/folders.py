"""Harbor's task folders as facts: what a task says, what it brings, and every fault of one that cannot be used.

    task.toml, instruction.md, environment/ (Dockerfile, docker-compose.yaml), tests/test.sh, solution/solve.sh

or steps/NAME/ with an instruction and tests each. Everything is read and nothing is run. `needs` says what it takes to
run one, `writing` makes them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from pydantic import ValidationError

from training.engine.environments.harbor.config import Step, TaskConfig

CONFIG, INSTRUCTION, DOCKERFILE, COMPOSE = "task.toml", "instruction.md", "Dockerfile", "docker-compose.yaml"
MOST_BYTES = 1_000_000
"""Of a file that is read."""
MAIN = "main"
"""The service of a docker-compose.yaml in which the agent acts."""
CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
"""Lines that mark a benchmark's texts, so that nobody learns from them; agents do not read them."""
SCRIPTS = {"linux": "test.sh", "windows": "test.bat"}


class Fault(NamedTuple):
    """Why a folder is not used. `place`: a file, with the field of task.toml after a colon. `reason` says what would be
    right."""

    folder: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{'/'.join(part for part in (self.folder, self.place) if part)}: {self.reason}"


class Part(msgspec.Struct, frozen=True):
    """What the agent is told and how it is graded; a task without steps has one, whose name is empty. `script`: the
    verifier's, relative to the folder, "" where an image brings it. `test` is its text."""

    name: str
    instruction: str
    script: str
    test: str


class HarborTask(msgspec.Struct, frozen=True):
    """A task folder. `name` is org/name, or the folder's. `images` are those that Dockerfiles begin with, or the ready
    one; `commands`: how many RUN lines build on them. `services`: containers besides the agent's. `variables`: names of
    environment variables that must be given. `solution`: it brings one."""

    folder: str
    name: str
    description: str
    metadata: dict[str, Any]
    parts: tuple[Part, ...]
    os: str
    images: tuple[str, ...]
    commands: tuple[str, ...]
    services: tuple[str, ...]
    network: str
    gpus: int
    tpu: bool
    tools: tuple[str, ...]
    variables: tuple[str, ...]
    separate: bool
    solution: bool


def read_harbor(folder: Path) -> tuple[list[HarborTask], list[Fault]]:
    """The tasks of a task folder, or of all task folders in a folder, by name, and every fault of the others. Hidden
    folders and files beside the folders are left alone."""
    if not folder.is_dir():
        return [], [Fault(str(folder), "", "is not a folder")]
    if (folder / CONFIG).exists():
        places = [folder]
    else:
        places = [place for place in sorted(folder.iterdir()) if place.is_dir() and not place.name.startswith(".")]
    if not places:
        return [], [Fault(str(folder), "", f"holds no task folders, each with {CONFIG}")]
    tasks: list[HarborTask] = []
    faults: list[Fault] = []
    for place in places:
        read = read_folder(place)
        if isinstance(read, HarborTask):
            tasks.append(read)
        else:
            faults += read
    return tasks, faults


def read_folder(place: Path) -> HarborTask | list[Fault]:
    """The task of one folder, or all that is wrong with it."""
    return _Folder(place).read()


class _Folder:
    """Reads one task folder and gathers its faults."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place.resolve()
        self.faults: list[Fault] = []

    def read(self) -> HarborTask | list[Fault]:
        config = self._read_config()
        if config is None:
            return self.faults
        parts = tuple(self._read_parts(config))
        images, commands = self._read_images(config)
        services = self._read_services()
        if self.faults:
            return self.faults
        given = [config.environment.env, config.verifier.env, config.solution.env]
        given += [config.verifier.environment.env] if config.verifier.environment else []
        return HarborTask(
            folder=self.place.name,
            name=config.task.name if config.task else self.place.name,
            description=config.task.description if config.task else "",
            metadata=config.metadata,
            parts=parts,
            os=config.environment.os,
            images=images,
            commands=commands,
            services=services,
            network=config.agent.network_mode or config.environment.network_mode or "public",
            gpus=config.environment.gpus or 0,
            tpu=config.environment.tpu is not None,
            tools=tuple(server.name for server in config.environment.mcp_servers),
            variables=tuple(sorted({name for env in given for value in env.values() for name in _asked(value)})),
            separate=config.verifier.separate or any(step.verifier.separate for step in config.steps),
            solution=(self.place / "solution").is_dir(),
        )

    def _fault(self, place: str, reason: str) -> None:
        self.faults.append(Fault(self.place.name, place, reason))

    def _read_text(self, name: str, *, optional: bool = False) -> str | None:
        path = self.place / name
        try:
            if not path.resolve().is_relative_to(self.root):
                self._fault(name, "leads out of the task's folder; it must be a file in it")
                return None
            if path.stat().st_size > MOST_BYTES:
                self._fault(name, f"has more than {MOST_BYTES:,} bytes")
                return None
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if not optional:
                self._fault(name, "is missing")
        except UnicodeDecodeError as error:
            self._fault(name, f"is not UTF-8 at byte {error.start}")
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
            self._fault(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return None

    def _read_config(self) -> TaskConfig | None:
        text = self._read_text(CONFIG)
        if text is None:
            return None
        try:
            return TaskConfig.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            self._fault(CONFIG, f"is not valid TOML: {error}")
        except ValidationError as error:
            for one in error.errors():
                field = ".".join(map(str, one["loc"]))
                self._fault(f"{CONFIG}: {field}" if field else CONFIG, one["msg"].removeprefix("Value error, "))
        return None

    def _read_parts(self, config: TaskConfig) -> Iterator[Part]:
        steps: Sequence[Step | None] = config.steps or [None]
        for step in steps:
            base = f"steps/{step.name}/" if step else ""
            verifier = step.verifier if step else config.verifier
            text = self._read_text(f"{base}{INSTRUCTION}")
            instruction = "" if text is None else _strip_canary(text).strip()
            if text is not None and not instruction:
                self._fault(f"{base}{INSTRUCTION}", "is empty; it must say what the agent is to do")
            within = verifier.environment or config.verifier.environment or config.environment
            script = SCRIPTS[within.os]
            places = [f"{base}tests/{script}", f"tests/{script}"]
            found = next((one for one in places if (self.place / one).is_file()), None)
            test = self._read_text(found) if found else ""
            if found is None and not (verifier.separate and self._brings_tests(config, base)):
                self._fault(places[0], "is missing: the script that writes /logs/verifier/reward.txt or reward.json")
            yield Part(step.name if step else "", instruction, found or "", test or "")

    def _brings_tests(self, config: TaskConfig, base: str) -> bool:
        """Whether a verifier's own image has the tests in it."""
        ready = config.verifier.environment is not None and config.verifier.environment.docker_image
        places = {f"{base}tests", "tests"}
        return bool(ready) or any(
            (self.place / one / file).is_file() for one in places for file in (DOCKERFILE, COMPOSE)
        )

    def _read_images(self, config: TaskConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The images that the agent's container is built on, and the commands that build it."""
        if config.environment.docker_image:
            return (config.environment.docker_image,), ()
        if not (self.place / "environment").is_dir():
            self._fault(
                "environment", "is missing: a folder with a Dockerfile, or environment.docker_image in task.toml"
            )
            return (), ()
        text = self._read_text(f"environment/{DOCKERFILE}", optional=True)
        if text is None:
            if not (self.place / "environment" / COMPOSE).is_file():
                self._fault("environment", f"has neither {DOCKERFILE} nor {COMPOSE}")
            return (), ()
        lines = [line.strip() for line in re.sub(r"\\[ \t]*\n", " ", text).splitlines()]
        words = [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]
        images = [
            next(part for part in rest.split() if not part.startswith("--"))
            for word, rest in words
            if word == "FROM" and rest
        ]
        if not images:
            self._fault(f"environment/{DOCKERFILE}", "has no FROM")
        return tuple(dict.fromkeys(images)), tuple(rest for word, rest in words if word == "RUN")

    def _read_services(self) -> tuple[str, ...]:
        text = self._read_text(f"environment/{COMPOSE}", optional=True)
        if text is None:
            return ()
        place = f"environment/{COMPOSE}"
        try:
            found = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            self._fault(place, f"is not valid YAML{f' at line {mark.line + 1}' if mark is not None else ''}")
            return ()
        services = found.get("services") if isinstance(found, dict) else None
        if not isinstance(services, dict):
            self._fault(place, "must be an object with an object of services")
            return ()
        return tuple(sorted(str(name) for name in services if name != MAIN))


def _strip_canary(text: str) -> str:
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if not CANARY.match(line.strip())), len(lines))
    return "\n".join(lines[first:])


def _asked(value: str) -> list[str]:
    """The variables that a value takes from outside and has no default for: ${NAME}."""
    return re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value)
