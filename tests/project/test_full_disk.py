"""A full disk, ours or the database's: 507 with the reason, nothing half written is left, and it works later."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from psycopg.conninfo import make_conninfo

from decisions.importers.archives import unpack
from decisions.importers.opening import open_utf8
from decisions.models import Decision
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import put_folder
from training.models import DatasetSnapshot
from workspaces.errors import DiskFull
from workspaces.models import AuditEntry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
OURS = "The server's disk is full. Nothing was kept. Send the same again once there is space."
DATABASES = "The database's disk is full. Nothing was kept. Send the same again once there is space."
ROW = {"id": "1", "prompt": "a graph", "options": ["graphs", "web"], "answer": "graphs", "group": "module"}
DECISION = {"agent": "filer", "state": {"text": "a"}, "action": "travel", "policy_name": "outside"}
SIZE = 256 << 10


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    ballast = place / "ballast"
    with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


def rows(count: int) -> str:
    made = (ROW | {"id": str(number), "prompt": f"graph {number} " * 20} for number in range(count))
    return "\n".join(map(json.dumps, made))


def body(content: str) -> dict[str, Any]:
    return {"what": "labelled", "agent": "filer", "name": "gold", "file": "rows.jsonl", "content": content}


def files_of(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


class TestOurs:
    @pytest.fixture(params=["temporary", "store"])
    def full(self, request: Any, small: Path, store: Path, settings: Any, monkeypatch: Any) -> Path:
        """The full file system holds what is temporary, or the store; its ballast."""
        if request.param == "temporary":
            monkeypatch.setattr(tempfile, "tempdir", str(small))
        else:
            settings.ARTIFACTS = str(small / "artifacts")
        return fill(small)

    def test_an_import_over_the_api(self, api: Any, agent: Any, full: Path) -> None:
        answer = api().post("imports", body(rows(100)))
        assert answer.status_code == 507, answer.content
        error = answer.json()["error"]
        assert (error["code"], error["message"]) == ("disk_full", OURS)
        assert not Job.objects.exists() and files_of(full.parent) == ["ballast"]
        full.unlink()
        started = api().post("imports", body(rows(100)))
        assert started.status_code == 202
        run_job(started.json()["id"])
        assert Job.objects.get().state == "succeeded"

    def test_a_form_with_a_file(self, page_client: Any, owner: Any, agent: Any, full: Path) -> None:
        def send() -> Any:
            file = SimpleUploadedFile("rows.jsonl", rows(300).encode())
            return page_client(owner).post(
                "/w/acme/imports/new?what=labelled", {"file": file, "agent": "filer", "name": "gold"}
            )

        answer = send()
        assert (answer.status_code, OURS.replace("'", "&#x27;") in answer.content.decode()) == (507, True)
        assert files_of(full.parent) == ["ballast"]
        full.unlink()
        assert send().status_code == 302

    def test_a_job_waits_for_space(self, api: Any, agent: Any, small: Path, settings: Any) -> None:
        settings.ARTIFACTS = str(small)
        job = api().post("imports", body(rows(100))).json()["id"]
        ballast = fill(small)
        for _ in range(5):
            assert run_job(job) == "queued"
            Job.objects.update(run_after="2026-01-01T00:00Z")
        waiting = Job.objects.get(id=job)
        assert (waiting.state, waiting.error, waiting.attempts) == ("queued", OURS, waiting.max_attempts - 1)
        assert [name for name in files_of(small) if not name.startswith("incoming/upload-")] == ["ballast"]
        ballast.unlink()
        run_job(job)
        assert Job.objects.get(id=job).state == "succeeded" and DatasetSnapshot.objects.get().rows == 100

    def test_an_artifact_and_a_file_of_the_command_line(self, small: Path, settings: Any, tmp_path: Path) -> None:
        settings.ARTIFACTS = str(small)
        source = tmp_path / "source"
        source.mkdir()
        (source / "weights").write_bytes(b"w" * SIZE)
        with pytest.raises(OSError):
            put_folder(source, kind="model")
        assert files_of(small) == []

    def test_packed_files_are_not_blamed(self, small: Path, monkeypatch: Any, tmp_path: Path) -> None:
        """A zip and a .gz that cannot be unpacked for want of space are not broken."""
        import gzip

        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.json", "1" * 2 * SIZE)
        (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"1" * 2 * SIZE))
        (tmp_path / "wide.json").write_bytes(("1" * 2 * SIZE).encode("utf-16"))
        with pytest.raises(DiskFull), unpack(tmp_path / "a.zip", [".json"]):
            pass
        for name in ("a.json.gz", "wide.json"):
            with pytest.raises(DiskFull), open_utf8(tmp_path / name):
                pass
        assert files_of(small) == []

    def test_a_backup(self, small: Path, capsys: Any, settings: Any) -> None:
        info = connection.connection.info
        settings.DATABASE_URL = make_conninfo(info.dsn, password=info.password)
        fill(small)
        with pytest.raises(SystemExit) as ended:
            call_command("backup", str(small / "reckoner.tar"))
        assert ended.value.code == 2 and "No space left" in capsys.readouterr().err
        assert files_of(small) == ["ballast"]


def free() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION IF EXISTS no_space CASCADE")


class TestDatabases:
    """A trigger raises what PostgreSQL raises when it cannot extend a file."""

    @pytest.fixture
    def fill_table(self) -> Iterator[Callable[[str], None]]:
        def make(table: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(
                    "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION"
                    " 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
                )
                cursor.execute(f"CREATE TRIGGER no_space BEFORE INSERT ON {table} EXECUTE FUNCTION no_space()")

        yield make
        free()

    @pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "a"}], ids=["plain", "with a key"])
    @pytest.mark.parametrize("sent", [DECISION, [DECISION, DECISION]], ids=["one", "list"])
    def test_ingest(self, api: Any, agent: Any, fill_table: Any, sent: Any, headers: dict[str, str]) -> None:
        fill_table("decisions_decision")
        client = api("decisions:write")
        answer = client.post("decisions", sent, **headers)
        assert answer.status_code == 507, answer.content
        assert answer.json()["error"]["message"] == DATABASES and not Decision.objects.exists()
        free()
        assert client.post("decisions", sent, **headers).status_code == 201
        assert Decision.objects.count() == (len(sent) if isinstance(sent, list) else 1)

    def test_a_page(self, page_client: Any, owner: Any, agent: Any, fill_table: Any) -> None:
        fill_table("workspaces_auditentry")
        form = {
            "name": "ci",
            "agent": "",
            "slug": "sorter",
            "kind": "CUSTOM",
            "options": "a\nb",
            "scopes": ["route:read"],
        }
        answer = page_client(owner).post("/w/acme/connect/keys", form)
        assert (answer.status_code, DATABASES.replace("'", "&#x27;") in answer.content.decode()) == (507, True)
        assert not AuditEntry.objects.exists()
