"""docker-compose.yml: valid by every validator that is there, and its environment is .env.example's.

`python -m tools.compose` prints the rows that its test asks for. No container is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.report import Report, Row

ROOT = Path(__file__).resolve().parents[1]
COMPOSE_FILE = ROOT / "docker-compose.yml"
ENV_EXAMPLE = ROOT / ".env.example"
# Has everything from .env; every other service names the few variables that it is given.
OURS = ("check", "migrate", "bootstrap", "web", "gateway", "worker", "trainer", "trainer-gpu", "exporter", "beat")
INTERPOLATED = re.compile(r"\$\{(\w+)\}")

Environments = dict[str, dict[str, str]]


def read_env(path: Path = ENV_EXAMPLE) -> dict[str, str]:
    """NAME=value lines. Ours need no quotes and refer to nothing, so that every reader of such files agrees."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def load_compose(path: Path = COMPOSE_FILE) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def fill_in(text: str, variables: Mapping[str, str]) -> str:
    """`${NAME}` as Compose does it. Raises KeyError for a variable that .env.example does not have."""
    return INTERPOLATED.sub(lambda found: variables[found[1]], text)


def read_environments(compose: Mapping[str, Any], variables: Mapping[str, str]) -> Environments:
    """Each service's environment as written: that of its env_file, then its own."""
    found: Environments = {}
    for name, service in compose["services"].items():
        own = {key: fill_in(str(value), variables) for key, value in (service.get("environment") or {}).items()}
        found[name] = (dict(variables) if service.get("env_file") else {}) | own
    return found


def find_differences(environments: Environments, variables: Mapping[str, str]) -> list[str]:
    """What is in a service's environment and not in .env.example, or the other way round; empty when they are equal."""
    found = [
        f"{service}: {name}={value}"
        for service, environment in environments.items()
        for name, value in environment.items()
        if variables.get(name) != value
    ]
    found += [f"{service} is missing" for service in OURS if service not in environments]
    for service in OURS:
        found += [f"{service}: no {name}" for name in variables if name not in environments.get(service, variables)]
    return found


@dataclass(frozen=True, slots=True)
class Client:
    """A program that reads Compose files."""

    name: str
    command: tuple[str, ...]

    def config(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """The file in `folder` with its .env, as it understands them. The shell's own variables stay out."""
        environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        environment["COMPOSE_PROFILES"] = "cpu,gpu"
        return subprocess.run(
            [*self.command, "config"], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )


def find_clients() -> list[Client]:
    """Docker's compose plugin and the stand-alone docker-compose, as far as they are there."""
    found = []
    for command in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(command[0]):
            asked = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
            if asked.returncode == 0:
                found.append(Client(f"{' '.join(command)} {asked.stdout.strip()}", command))
    return found


def check_schema(path: Path = COMPOSE_FILE) -> subprocess.CompletedProcess[str]:
    """Against the Compose Specification's schema, which check-jsonschema carries."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def lay_out(folder: Path) -> Path:
    """What Compose reads, as somebody has it who copied .env.example to .env."""
    shutil.copy(COMPOSE_FILE, folder / COMPOSE_FILE.name)
    shutil.copy(ENV_EXAMPLE, folder / ".env")
    return folder


def rows() -> list[Row]:
    """Rows for a report: validity by each validator, and the environment as read by us and by each client."""
    variables, schema = read_env(), check_schema()
    said = (schema.stdout + schema.stderr).strip() if schema.returncode else "valid"
    found = [Row("docker-compose.yml, by the Compose Specification's schema", "valid", said, schema.returncode == 0)]
    read = {"as written": read_environments(load_compose(), variables)}
    clients = find_clients()
    for client in clients:
        with tempfile.TemporaryDirectory() as folder:
            done = client.config(lay_out(Path(folder)))
        figure = done.stderr.strip() if done.returncode else f"{len(yaml.safe_load(done.stdout)['services'])} services"
        found.append(Row(f"  by `{client.name} config`", "exit code 0", figure, done.returncode == 0))
        if done.returncode == 0:
            services = yaml.safe_load(done.stdout)["services"]
            read[client.name] = {name: service.get("environment") or {} for name, service in services.items()}
    if not clients:
        # Not a failure of ours, and not to be passed over in silence.
        found.append(Row("  by `docker compose config`", "where it is there", "no such program here", True))
    for reader, environments in read.items():
        differences = find_differences(environments, variables)
        figure = "; ".join(differences) or f"{len(variables)} variables, {len(environments)} services"
        found.append(Row(f"environment of the services, {reader}", "= .env.example", figure, not differences))
    return found


def main() -> int:
    report = Report("compose")
    for row in rows():
        report.add(row.what, bound=row.bound, figure=row.figure, passed=row.passed)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
