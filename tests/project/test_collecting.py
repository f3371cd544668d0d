"""The collector takes what nothing holds and nothing else; a workspace stays within its quota."""

from __future__ import annotations

import datetime as dt
import io
import json
import threading
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from models_registry.artifacts import collecting, holders
from models_registry.artifacts import opening as artifacts
from models_registry.artifacts.collecting import collect_artifacts, find_unheld
from models_registry.errors import ArtifactRemoved, QuotaExceeded, VersionInUse
from models_registry.models import Artifact, ModelVersion
from models_registry.versions.retirement import restore_version, retire_version
from models_registry.versions.services import move_alias, store_artifact
from project.upkeep.lifetimes import remove_expired
from tools import factories
from training.exports.services import start_export
from training.models import TrainingRun
from training.models.export import ExportFormat
from workspaces.access.actors import system
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db
DAY = dt.timedelta(days=1)
LATER = dt.timedelta(days=40)


@pytest.fixture
def keep(store: Any, workspace: Any, tmp_path: Any) -> Any:
    """Stores an artifact of a thousand bytes; its row."""

    def one(name: str, kind: str = "model", size: int = 1000) -> Artifact:
        folder = tmp_path / f"source-{name}"
        folder.mkdir(exist_ok=True)
        (folder / "weights").write_text(name.ljust(size))
        return store_artifact(workspace=workspace, folder=folder, kind=kind)

    return one


@pytest.fixture
def old() -> dt.datetime:
    """A time after everything that the test makes, as the collector's limit."""
    return timezone.now() + LATER


def retired(artifact: Artifact, **fields: Any) -> ModelVersion:
    long_ago = timezone.now() - LATER
    return factories.ModelVersionFactory(artifact=artifact, state="retired", retired_at=long_ago, **fields)


def left(store: Any) -> set[str]:
    return {path.name for path in store.glob("sha256/*/*")}


def test_every_key_to_an_artifact_or_a_version_is_answered_for() -> None:
    keys = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.is_relation and field.concrete and field.related_model in (Artifact, ModelVersion)
    }
    covered = holders.list_covered()
    assert len(keys) > 15
    assert keys - covered == set(), "register a holder, or `leave` it (models_registry/artifacts/holders.py)"
    assert covered - keys == set(), "no such key"


HELD = {
    "a version that is not retired": lambda a: factories.ModelVersionFactory(artifact=a),
    "an alias": lambda a: factories.AliasFactory(version=retired(a)),
    "an arm of an experiment under way": lambda a: factories.VariantFactory(version=retired(a)),
    "a deployment": lambda a: factories.DeploymentFactory(version=retired(a)),
    "an export": lambda a: factories.ExportJobFactory(artifact=a, state="ready", finished_at=timezone.now()),
    "a dataset": lambda a: factories.DatasetSnapshotFactory(artifact=a),
    "a rehearsal": lambda a: factories.RehearsalFactory(source=a),
    "a score on a suite": lambda a: factories.SuiteScoreFactory(answers=a),
    "an export under way": lambda a: factories.ExportJobFactory(version=retired(a)),
    "a run under way": lambda a: factories.TrainingRunFactory(base_version=retired(a), base_model=""),
    "a scoring under way": lambda a: factories.JobFactory(
        kind="training.score_suite", payload={"version": str(retired(a).id)}
    ),
}


@pytest.mark.parametrize("holder", HELD)
@pytest.mark.quick_cases(4)
def test_what_something_holds_stays(keep: Any, store: Any, old: dt.datetime, holder: str) -> None:
    mine, unheld = keep("mine"), keep("unheld")
    HELD[holder](mine)
    assert holders.find_holders([mine.id, unheld.id]) == {mine.id: [holder]}
    assert sum(collect_artifacts(old)) == 1
    assert mine.digest in left(store) and unheld.digest not in left(store)
    mine.refresh_from_db()
    assert mine.removed_at is None


def test_the_reward_model_of_a_run_and_the_base_under_an_adapter_stay(keep: Any, store: Any, old: dt.datetime) -> None:
    judge, base, adapter, export = keep("judge"), keep("base"), keep("adapter", "adapter"), keep("export")
    reward = {"name": "model", "weight": 1.0, "version": str(retired(judge).id)}
    run = factories.TrainingRunFactory(spec={"reward": [reward]})
    over = retired(adapter, base=retired(base))
    alias = factories.AliasFactory(version=over)
    factories.DeploymentFactory(version=factories.ModelVersionFactory(artifact=keep("other")), export=export)
    assert sum(collect_artifacts(old)) == 0
    alias.delete()
    TrainingRun.objects.filter(id=run.id).update(state="failed", finished_at=timezone.now())
    assert sum(collect_artifacts(old)) == 3
    assert left(store) == {export.digest, keep("other").digest}


def test_what_is_young_or_was_just_retired_stays_and_each_removal_is_audited(
    keep: Any, store: Any, workspace: Any, settings: Any
) -> None:
    young, old, just, gone = (keep(name) for name in ("young", "old", "just", "gone"))
    long_ago = timezone.now() - LATER
    Artifact.objects.exclude(id=young.id).update(stored_at=long_ago)
    version = factories.ModelVersionFactory(artifact=just)
    retire_version(by=system(workspace), version=version, reason="worse")
    retired(gone)
    settings.KEEP_ARTIFACT_DAYS = 0
    assert dict(remove_expired())["artifacts"] == 0
    settings.KEEP_ARTIFACT_DAYS = 30
    counts = [count for kind, count in remove_expired() if kind == "artifacts"]
    assert sum(counts) == 2
    assert left(store) == {young.digest, just.digest}
    entries = AuditEntry.objects.filter(action="artifact.removed")
    assert {entry.details["digest"] for entry in entries} == {old.digest, gone.digest}
    assert entries[0].details["reason"] == "nothing holds it"


def test_the_command_shows_first_and_removes_then(keep: Any, store: Any) -> None:
    held, unheld = keep("held"), keep("unheld")
    factories.ModelVersionFactory(artifact=held)
    Artifact.objects.update(stored_at=timezone.now() - LATER)

    def run(*arguments: str) -> Any:
        out = io.StringIO()
        call_command("collect_artifacts", "--json", *arguments, stdout=out)
        return json.loads(out.getvalue())

    shown = run("--dry-run")
    assert [one["digest"] for one in shown["unheld"]] == [unheld.digest] and shown["bytes"] == 1000
    assert run("--dry-run", "--days", "50")["unheld"] == []
    assert len(left(store)) == 2 and not AuditEntry.objects.filter(action="artifact.removed").exists()
    with pytest.raises(SystemExit, match="2"):
        run("--days", "0")
    assert run() == {"removed": 1} and left(store) == {held.digest}
    assert run() == {"removed": 0}


def test_files_without_a_row_go_and_content_that_another_workspace_has_stays(
    keep: Any, store: Any, other_workspace: Any, tmp_path: Any, old: dt.datetime
) -> None:
    mine, orphan = keep("shared"), factories.put_files({"a": "killed before its row"})
    theirs = store_artifact(workspace=other_workspace, folder=tmp_path / "source-shared", kind="model")
    factories.ModelVersionFactory(artifact=theirs)
    assert {one.digest for one in find_unheld(timezone.now() - DAY)} == set()
    assert sum(collect_artifacts(old)) == 2
    mine.refresh_from_db()
    assert mine.removed_at is not None
    assert left(store) == {mine.digest} and orphan.digest not in left(store)
    assert artifacts.verify_artifact(theirs.digest)


def test_a_removal_that_was_cut_off_is_done_again_and_storing_the_content_again_brings_it_back(
    keep: Any, store: Any, old: dt.datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = keep("cut off")
    with monkeypatch.context() as cut, pytest.raises(OSError, match="power"):
        cut.setattr(collecting, "hide_folder", lambda digest: (_ for _ in ()).throw(OSError("power")))
        list(collect_artifacts(old))
    artifact.refresh_from_db()
    assert artifact.removed_at is not None and left(store) == {artifact.digest}
    assert sum(collect_artifacts(timezone.now() - DAY)) == 1 and left(store) == set()
    again = keep("cut off")
    assert again.id == artifact.id and again.removed_at is None and artifacts.verify_artifact(again.digest)
    assert sum(collect_artifacts(timezone.now() - DAY)) == 0


def test_a_version_in_use_is_not_retired_and_one_whose_files_went_is_not_used_again(
    keep: Any, workspace: Any, old: dt.datetime
) -> None:
    by = system(workspace)
    version = factories.ModelVersionFactory(artifact=keep("weights"))
    alias = factories.AliasFactory(version=version)
    with pytest.raises(VersionInUse, match="an alias uses it"):
        retire_version(by=by, version=version)
    version.refresh_from_db()
    assert version.state == "ready"
    alias.delete()
    retire_version(by=by, version=version)
    assert restore_version(by=by, version=version).retired_at is None
    retire_version(by=by, version=version)
    assert sum(collect_artifacts(old)) == 1
    for use in (
        lambda: move_alias(by=by, version=version, name="champion"),
        lambda: restore_version(by=by, version=version),
        lambda: start_export(by=by, version=version, format=ExportFormat.MERGED),
    ):
        with pytest.raises(ArtifactRemoved, match=r"cannot be used: its files were removed on"):
            use()
    version.refresh_from_db()
    assert version.state == "retired" and not version.aliases.exists() and not version.exports.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", ["the new use", "the collector"])
def test_an_artifact_that_gets_a_holder_while_the_collector_runs_is_not_taken(
    keep: Any, store: Any, workspace: Any, old: dt.datetime, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector has found it; then its version is restored. Whoever has the row's lock first wins, and the other
    sees it."""
    artifact = keep("raced")
    version = retired(artifact)
    found, go_on, taken = threading.Event(), threading.Event(), []
    real = collecting._mark_removed

    def mark(*given: Any) -> bool:
        found.set()
        assert go_on.wait(30)
        return real(*given)

    def collect() -> None:
        try:
            taken.append(sum(collect_artifacts(old)))
        finally:
            connection.close()

    monkeypatch.setattr(collecting, "_mark_removed", mark)
    collector = threading.Thread(target=collect)
    collector.start()
    assert found.wait(30)
    if first == "the new use":
        with transaction.atomic():
            restore_version(by=system(workspace), version=version)
            go_on.set()  # it waits for the row, which this transaction has
            collector.join(0.2)
            assert collector.is_alive()
        collector.join(30)
        assert taken == [0] and left(store) == {artifact.digest}
    else:
        go_on.set()
        collector.join(30)
        with pytest.raises(ArtifactRemoved):
            restore_version(by=system(workspace), version=version)
        version.refresh_from_db()
        assert taken == [1] and left(store) == set() and version.state == "retired"


def test_a_quota_refuses_before_work_starts_and_when_it_is_stored(
    keep: Any, store: Any, workspace: Any, settings: Any, admin: Any, page_client: Any
) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 2500
    first = keep("first")
    base, adapter = keep("base"), factories.ArtifactFactory(workspace=workspace, kind="adapter", size_bytes=1)
    over = factories.ModelVersionFactory(artifact=base)
    version = factories.ModelVersionFactory(registered_model=over.registered_model, artifact=adapter, base=over)
    assert keep("first") == first  # it is there already
    before = left(store), Artifact.objects.count()
    with pytest.raises(QuotaExceeded, match=r"has 2.0 KB of artifacts of 2.4 KB .* 1000 bytes more do not fit"):
        keep("third")
    with pytest.raises(QuotaExceeded):
        start_export(by=system(workspace), version=version)
    assert (left(store), Artifact.objects.count()) == before and not version.exports.exists()
    page = page_client(admin).get(f"/w/{workspace.slug}/disk").content.decode()
    assert "Artifacts of this workspace" in page and "of 2.4\xa0KB allowed" in page
    Artifact.objects.filter(id=first.id).update(removed_at=timezone.now())
    assert keep("third").size_bytes == 1000
    settings.ARTIFACT_QUOTA_BYTES = 0
    assert keep("fourth", size=5000)
