"""What Reckoner reads of a Harbor task's task.toml, as pydantic models: they name every fault at once.

As in Harbor, unknown keys are ignored. Source: harbor 0.26, `harbor.models.task.config`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$"
NetworkMode = Literal["no-network", "public", "allowlist"]


class Network(BaseModel):
    """What may be reached. `allowed_hosts` belongs to the mode allowlist alone."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None

    @model_validator(mode="after")
    def check_hosts(self) -> Network:
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self


class Package(BaseModel):
    """[task]: the name under which it is published, org/name."""

    name: str = Field(pattern=NAME)
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    keywords: list[str] = []


class Server(BaseModel):
    """A tool server for the agent."""

    name: str


class Environment(Network):
    """[environment]: the container. `cpus`, `memory_mb` and `storage_mb` are what it gets."""

    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    build_timeout_sec: float = 600.0
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    tpu: dict[str, Any] | None = None
    mcp_servers: list[Server] = []
    env: dict[str, str] = {}
    workdir: str | None = None

    @field_validator("os", mode="before")
    @classmethod
    def lower_os(cls, given: Any) -> Any:
        return given.lower() if isinstance(given, str) else given


class Agent(Network):
    timeout_sec: float | None = None
    user: str | int | None = None


class Verifier(Network):
    """[verifier]: `separate` is a container of its own, which gets the artifacts."""

    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None

    @model_validator(mode="after")
    def check_mode(self) -> Verifier:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError('environment_mode = "shared" takes no [verifier.environment]')
        return self

    @property
    def separate(self) -> bool:
        return (self.environment_mode or ("separate" if self.environment else "shared")) == "separate"


class Step(BaseModel):
    """[[steps]]: a part of a task with its own instruction and tests, in steps/NAME."""

    name: str = Field(min_length=1, pattern=r"^[^/\\\x00]+$")
    verifier: Verifier = Verifier()

    @field_validator("name")
    @classmethod
    def check_name(cls, given: str) -> str:
        if given in (".", ".."):
            raise ValueError("must name a folder")
        return given


class Solution(BaseModel):
    env: dict[str, str] = {}


class TaskConfig(BaseModel):
    """The whole of task.toml. A task without [task] is named by its folder."""

    schema_version: str = "1.4"
    task: Package | None = None
    metadata: dict[str, Any] = {}
    verifier: Verifier = Verifier()
    agent: Agent = Agent()
    environment: Environment = Environment()
    solution: Solution = Solution()
    steps: list[Step] = []

    @model_validator(mode="before")
    @classmethod
    def rename_version(cls, given: Any) -> Any:
        """`version` is what the first format called it."""
        if isinstance(given, dict) and "schema_version" not in given and "version" in given:
            return {**given, "schema_version": given["version"]}
        return given

    @field_validator("steps")
    @classmethod
    def check_names(cls, given: list[Step]) -> list[Step]:
        names = [step.name.casefold() for step in given]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two steps are named {', '.join(twice)}")
        return given
