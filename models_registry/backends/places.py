"""Where versions are served, in the order in which they are asked. One query for any number of versions."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from models_registry.backends.endpoint import Endpoint, endpoint_of, own_endpoint
from models_registry.models import BackendKind, Deployment, ModelVersion


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and what it calls the version."""

    endpoint: Endpoint
    model: str


def find_places(versions: Iterable[ModelVersion]) -> dict[uuid.UUID, tuple[Place, ...]]:
    """By version. Deployments come by priority, but those last whose server is known to be down, or lacks the adapter;
    behind them all the instance's own model server, where it has the weights. A remote version without a deployment has
    no place."""
    wanted = {version.id: version for version in versions}
    deployed: dict[uuid.UUID, list[Place]] = defaultdict(list)
    rows = Deployment.objects.filter(version__in=wanted, enabled=True, backend__enabled=True).select_related(
        "backend", "export"
    )
    for row in sorted(rows, key=lambda one: (one.backend.state == "down" or one.error != "", one.priority, one.id)):
        deployed[row.version_id].append(Place(endpoint_of(row.backend), name_at(row, wanted[row.version_id])))
    return {
        key: (*deployed[key], *([Place(own_endpoint(), version.stored.digest)] if not version.is_remote else []))
        for key, version in wanted.items()
    }


def name_at(deployment: Deployment, version: ModelVersion) -> str:
    """What the backend calls the version."""
    if deployment.remote_name:
        return deployment.remote_name
    if version.is_remote:
        return version.remote_name
    if deployment.export is not None:
        return deployment.export.digest
    name = version.stored.digest
    return name if deployment.backend.kind == BackendKind.MODEL_SERVER else f"{version}".replace(":", "-")
