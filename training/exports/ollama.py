"""Ollama: a version's GGUF becomes a model of an Ollama server, over its API.

The file is uploaded as a blob under its SHA-256, which the server checks; then a model is made of it, with the chat
template in Go, the agent's system prompt and what the hosting profile says. A model is named `filer:2-q4_k_m`; its
name for callers, such as `filer:champion`, is a copy that `switch_model` points at another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from decisions.models import AgentVersion
from decisions.queries.agents import find_agent_version
from models_registry.artifacts.opening import artifact_path, verify_artifact
from models_registry.models import ModelVersion
from training.engine.spec.export_formats import INSTALL
from training.exports.hosting import HostingProfile
from training.models import ExportJob
from training.models.export import ExportFormat, ExportState
from workspaces.errors import InvalidInput

LOCAL = "http://127.0.0.1:11434"
WRITES_SECONDS = 600.0
"""For a whole upload, or for making the model."""
CHECK_SECONDS = 5.0
BEFORE_TEMPLATES = {"lacks": "the file was made before its chat template was converted; export it again"}


class OllamaRefused(InvalidInput):
    """The server cannot be reached, or does not do what was asked; the message says which."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """A model that the server has now, and the digest of the file that it was made of."""

    name: str
    digest: str
    profile: dict[str, Any]


def named_host() -> str:
    """The instance's own server; "" where the environment names none."""
    return os.environ.get("OLLAMA_HOST", "")


def find_gguf(version: ModelVersion, quantisation: str) -> ExportJob:
    """Its ready export as GGUF. Raises InvalidInput where there is none."""
    exports = ExportJob.objects.filter(version=version, format=ExportFormat.GGUF, state=ExportState.READY)
    found = exports.filter(options__quantisation=quantisation).select_related("artifact").order_by("-id").first()
    if found is None:
        raise InvalidInput(f"{version} has no finished export as GGUF {quantisation}. Export it first, on its page.")
    return found


def name_of(version: ModelVersion, quantisation: str) -> str:
    """What the model is called at the server."""
    return f"{version.registered_model.name}:{version.number}-{quantisation.lower()}"


def find_parameters(
    version: str, details: Mapping[str, Any], asks: AgentVersion | None, profile: HostingProfile
) -> dict[str, Any]:
    """Of a model made of the GGUF of `version`, of which the engine says `details`. Raises InvalidInput for a chat
    template that Ollama cannot run or that has no place for the agent's system prompt, and for prompts that the
    profile's context has no place for."""
    template = details.get("ollama", BEFORE_TEMPLATES)
    if lacks := template.get("lacks"):
        raise InvalidInput(f"{version} cannot be used by Ollama: {lacks}.")
    parameters: dict[str, Any] = profile.parameters(details["positions"])
    if asks is None:
        return parameters
    if asks.system_prompt and not template["takes_system"]:
        raise InvalidInput(f"The agent has a system prompt, and the chat template of {version} takes none.")
    if asks.max_prompt_tokens is not None and asks.max_prompt_tokens > parameters["num_ctx"]:
        raise InvalidInput(
            f"{asks} asks with up to {asks.max_prompt_tokens:,} tokens, and profile {profile.name} has a context "
            f"of {parameters['num_ctx']:,}: choose one with more."
        )
    limit = {} if asks.max_completion_tokens is None else {"num_predict": asks.max_completion_tokens}
    return parameters | {"temperature": asks.temperature} | limit


def deploy(host: str, *, export: ExportJob, profile: HostingProfile, name: str = "") -> Deployed:
    """Uploads the file where the server lacks it, and makes the model, which replaces one of the same name. Raises
    OllamaRefused, and InvalidInput as `find_parameters`."""
    assert export.artifact is not None
    version, details, quantisation = export.version, export.report.get("details", {}), export.options["quantisation"]
    asks = find_agent_version(version.registered_model)
    parameters = find_parameters(str(version), details, asks, profile)
    verify_artifact(export.artifact.digest)
    with _client(host) as client:
        digest = client.create_blob(artifact_path(export.artifact.digest) / f"model-{quantisation}.gguf")
        name = name or name_of(version, quantisation)
        client.create(
            model=name,
            files={"model.gguf": digest},
            template=details["ollama"]["template"],
            system=(asks.system_prompt if asks is not None else "") or None,
            parameters=parameters,
        )
    longest = asks.max_prompt_tokens if asks is not None else None
    return Deployed(name, digest, profile.as_plain(details["positions"], longest))


def check_server(host: str) -> None:
    """Whether one answers there. Raises OllamaRefused, InvalidInput where the client's package is missing."""
    with _client(host, CHECK_SECONDS) as client:
        client.list()


def list_models(host: str) -> list[dict[str, Any]]:
    """`name`, `digest` and `size` in bytes of each, by name. Raises OllamaRefused."""
    with _client(host) as client:
        found = client.list().models
    told = [{"name": one.model, "digest": one.digest, "size": int(one.size or 0)} for one in found]
    return sorted(told, key=lambda one: str(one["name"]))


def switch_model(host: str, *, alias: str, to: str) -> None:
    """From here on the server answers for `alias` with the model `to`. Raises OllamaRefused."""
    with _client(host) as client:
        client.copy(to, alias)


def delete_model(host: str, name: str) -> None:
    """Raises OllamaRefused, also where the server has no such model."""
    with _client(host) as client:
        client.delete(name)


@contextmanager
def _client(host: str, seconds: float = WRITES_SECONDS) -> Iterator[Any]:
    """Its faults as OllamaRefused. Raises InvalidInput where the client's package is missing."""
    if find_spec("ollama") is None:
        raise InvalidInput(f"The package ollama is not installed: {INSTALL}.")
    import httpx
    import ollama

    try:
        client = ollama.Client(host, timeout=seconds)
    except (httpx.InvalidURL, ValueError) as error:
        raise OllamaRefused(f"{host[:100]!r} is not the address of a server, such as {LOCAL}.") from error
    try:
        with closing(client):
            yield client
    except ollama.ResponseError as error:
        raise OllamaRefused(f"Ollama at {host} refused: {error.error} ({error.status_code}).") from error
    except (httpx.HTTPError, ConnectionError, UnicodeError) as error:  # UnicodeError: a host name that is none
        raise OllamaRefused(f"Ollama at {host} does not answer: {type(error).__name__}.") from error
