"""What holds artifacts: the collector takes only those that nothing here does (`models_registry.artifacts.collecting`).

Each floor registers queries about its own rows. A holder of artifacts names artifacts. A holder of versions names
versions in use: their artifacts are held, and those of the bases under their adapters. `covers` are the foreign keys to
Artifact or ModelVersion that a query answers for, as "app.Model.field"; `leave` names those that hold nothing, and why.
A test asserts that every such key is in one of the two.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from django.db import transaction

from models_registry.errors import ArtifactRemoved
from models_registry.models import Alias, Artifact, Deployment, Holdout, ModelVersion, Variant, VersionState

Find = Callable[[Collection[uuid.UUID]], Iterable[uuid.UUID]]
"""Given ids of artifacts (or versions), those of them that are held."""


@dataclass(frozen=True, slots=True)
class Holder:
    """`name` says for people what holds, in the singular."""

    name: str
    covers: tuple[str, ...]
    find: Find


_of_artifacts: list[Holder] = []
_of_versions: list[Holder] = []
_left: dict[str, str] = {}


def artifact_holder(name: str, *covers: str) -> Callable[[Find], Find]:
    """Decorator: the function says which of these artifacts something of its floor holds."""
    return _register(_of_artifacts, name, covers)


def version_holder(name: str, *covers: str) -> Callable[[Find], Find]:
    """Decorator: the function says which of these versions something of its floor uses."""
    return _register(_of_versions, name, covers)


def _register(holders: list[Holder], name: str, covers: tuple[str, ...]) -> Callable[[Find], Find]:
    def register(find: Find) -> Find:
        holders.append(Holder(name, covers, find))
        return find

    return register


def leave(reason: str, *keys: str) -> None:
    """These foreign keys hold nothing."""
    _left.update(dict.fromkeys(keys, reason))


def list_covered() -> set[str]:
    """Every foreign key that is answered for."""
    return {key for holder in (*_of_artifacts, *_of_versions) for key in holder.covers} | set(_left)


def find_holders(artifacts: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Of these artifacts those that something holds, with what does. Two queries, and one for each holder."""
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for holder in _of_artifacts:
        for artifact in set(holder.find(artifacts)):
            found[artifact].append(holder.name)
    # An adapter in use needs its base's files as well as its own.
    uses: dict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    versions = ModelVersion.objects.filter(artifact__in=artifacts)
    for version, artifact in versions.values_list("id", "artifact"):
        uses[version].add(artifact)
    over = ModelVersion.objects.filter(base__artifact__in=artifacts)
    for version, artifact in over.values_list("id", "base__artifact"):
        uses[version].add(artifact)
    for version, names in find_uses(uses).items():
        for artifact in uses[version]:
            found[artifact] += [name for name in names if name not in found[artifact]]
    return dict(found)


def find_uses(versions: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Of these versions those that something uses, with what does."""
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for holder in _of_versions if versions else ():
        for version in set(holder.find(versions)):
            found[version].append(holder.name)
    return dict(found)


def require_files(*versions: ModelVersion | None) -> None:
    """Call in the transaction that begins to use these versions: from here to its end the collector does not take their
    artifacts, and afterwards sees who uses them. Raises ArtifactRemoved."""
    assert transaction.get_connection().in_atomic_block
    wanted = {one.id: one for version in versions if version is not None for one in (version, version.weights)}
    named = {one.artifact_id: str(one) for one in wanted.values() if one.artifact_id is not None}
    # In one order everywhere, or two such transactions could wait for each other.
    rows = Artifact.objects.select_for_update(no_key=True).filter(id__in=named).order_by("id")
    for artifact in rows:
        if artifact.removed_at is not None:
            raise ArtifactRemoved(
                f"{named[artifact.id]} cannot be used: its files were removed on {artifact.removed_at:%-d %B %Y}."
            )


@version_holder(
    "a version that is not retired", "models_registry.ModelVersion.artifact", "models_registry.ModelVersion.base"
)
def _ready(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    ready = ModelVersion.objects.filter(id__in=versions).exclude(state=VersionState.RETIRED)
    return ready.values_list("id", flat=True)


@version_holder("an alias", "models_registry.Alias.version")
def _aliases(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    return Alias.objects.filter(version__in=versions).values_list("version", flat=True)


@version_holder("an arm of an experiment under way", "models_registry.Variant.version")
def _arms(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    arms = Variant.objects.filter(version__in=versions, experiment__ended_at=None)
    return arms.values_list("version", flat=True)


@version_holder("a holdout under way", "models_registry.Holdout.version")
def _holdouts(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    held = Holdout.objects.filter(version__in=versions, ended_at=None)
    return held.values_list("version", flat=True)


@version_holder("a deployment", "models_registry.Deployment.version")
def _deployments(versions: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    return Deployment.objects.filter(version__in=versions).values_list("version", flat=True)


@artifact_holder("a deployment", "models_registry.Deployment.export")
def _deployed(artifacts: Collection[uuid.UUID]) -> Iterable[uuid.UUID]:
    found = Deployment.objects.filter(export__in=artifacts).values_list("export", flat=True)
    return [artifact for artifact in found if artifact is not None]


leave(
    "History: the row records the past, and nobody asks the version any more.",
    "models_registry.AliasMove.before",
    "models_registry.AliasMove.after",
    "models_registry.Call.assigned",
    "models_registry.Call.served",
    "models_registry.Experiment.promoted_version",
    "models_registry.Exposure.version",
    "models_registry.GateVerdict.against",
    "models_registry.GateVerdict.version",
    "models_registry.ModelVersion.parent",
)
