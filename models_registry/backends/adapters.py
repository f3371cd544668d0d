"""Keeps the adapters of a vLLM server as its deployments say: `POST /v1/load_lora_adapter` and `…/unload_lora_adapter`
(https://docs.vllm.ai/en/latest/features/lora/, started with VLLM_ALLOW_RUNTIME_LORA_UPDATING).

A server that was started anew has none, so the watch over backends compares at each round, and not once at the
deployment. The server reads an adapter's files from the store of artifacts, at `Backend.artifacts_path` where it sees
that under another path. Adapters in other folders are somebody else's, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from models_registry.artifacts.opening import artifact_path, local_root, reading
from models_registry.backends.endpoint import Endpoint, endpoint_of
from models_registry.backends.openai import list_models, said_in, send
from models_registry.backends.places import name_at
from models_registry.errors import ArtifactCorrupt, BackendRefused, BackendUnavailable, StoreUnavailable
from models_registry.models import ArtifactKind, Backend, BackendKind, Capability, Deployment

SECONDS = 10.0
"""How long one of these requests may take; loading reads a few megabytes."""
WAITING = "The backend has not loaded it yet."


def has_adapters(backend: Backend) -> bool:
    return backend.kind == BackendKind.VLLM and Capability.ADAPTERS in backend.capabilities


def keep_adapters(backend: Backend) -> None:
    """Loads what is deployed there and missing, unloads what was ours; notes on each deployment why it is not there."""
    endpoint, root = endpoint_of(backend), PurePosixPath(backend.artifacts_path or local_root())
    wanted = {
        name_at(one, one.version): one
        for one in Deployment.objects.filter(
            backend=backend, enabled=True, export=None, version__artifact__kind=ArtifactKind.ADAPTER
        ).select_related("version__artifact", "version__registered_model", "backend", "export")
    }
    try:
        there = _list(endpoint)
    except (BackendUnavailable, BackendRefused) as error:
        for deployment in wanted.values():
            _note(deployment, error.message)
        return
    for name, deployment in wanted.items():
        _note(deployment, "" if name in there else _load(endpoint, root, name, deployment.version.stored.digest))
    for name, place in there.items():
        if name not in wanted and PurePosixPath(place).is_relative_to(root):
            _unload(endpoint, name)


def _list(endpoint: Endpoint) -> dict[str, str]:
    """The names of what it serves, with the folders that they come from."""
    return {str(row.get("id")): str(row.get("root") or "") for row in list_models(endpoint, SECONDS)}


def _load(endpoint: Endpoint, root: PurePosixPath, name: str, digest: str) -> str:
    """Why it could not; "" where it did."""
    try:
        with reading(digest):
            place = root / artifact_path(digest).relative_to(Path(local_root())).as_posix()
            _post(endpoint, "/load_lora_adapter", {"lora_name": name, "lora_path": str(place)})
    except (BackendUnavailable, BackendRefused, ArtifactCorrupt, StoreUnavailable) as error:
        return error.message
    return ""


def _unload(endpoint: Endpoint, name: str) -> None:
    try:
        _post(endpoint, "/unload_lora_adapter", {"lora_name": name})
    except (BackendUnavailable, BackendRefused):
        return  # it is asked for by nobody, and the next round tries again


def _post(endpoint: Endpoint, path: str, body: Mapping[str, str]) -> None:
    """vLLM answers with a sentence, and with JSON only where it refuses. Raises BackendUnavailable, BackendRefused."""
    answer = send(endpoint, "POST", path, body, SECONDS)
    if answer.is_success:
        return
    try:
        said = said_in(answer.json())
    except ValueError:
        said = answer.text
    if answer.status_code == 404 and not said:  # it does not know the path
        said = "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
    raise BackendRefused(f"{endpoint.name} answered {answer.status_code} to {path}: {said[:300].rstrip('.')}.")


def _note(deployment: Deployment, error: str) -> None:
    """Only where it changes: each change has the gateway read its routes anew."""
    Deployment.objects.filter(id=deployment.id).exclude(error=error[:500]).update(error=error[:500])
