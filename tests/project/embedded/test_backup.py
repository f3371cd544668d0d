"""The drill of docs/operations.md: a backup of an instance while it runs, and another instance made of it."""

import fcntl
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from project.backup.form import split_address
from project.embedded.layout import PROJECT_ROOT, Layout
from project.embedded.postgres import Postgres
from tests.template_database import migrate_instance

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("embedded")]
FILL = """
import pathlib, sys
import django
django.setup()
from models_registry.versions.services import store_artifact
from tools.factories import AgentFactory
agent = AgentFactory(slug="filer")
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
(folder / "weights.bin").write_bytes(b"w" * 100_000)
print(store_artifact(workspace=agent.workspace, folder=folder, kind="model", meta={}).digest)
"""


class Manage:
    """manage.py on an instance's directory, without anything of the tests' own."""

    def __init__(self, layout: Layout, **environment: str) -> None:
        outside = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "RECKONER_ARTIFACTS")
        clean = {name: value for name, value in os.environ.items() if name not in outside}
        self.environment = clean | {"RECKONER_VAR": str(layout.var), "PYTHONPATH": str(PROJECT_ROOT)} | environment

    def __call__(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *map(str, arguments)]
        return subprocess.run(
            command, cwd=PROJECT_ROOT, env=self.environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def saved(layout: Layout, tmp_path: Path) -> Iterator[tuple[Layout, Path, str]]:
    """An instance with an agent and an artifact, its backup, and the artifact's digest."""
    migrate_instance(layout.var)
    postgres = Postgres(layout.postgres, layout.locate_sockets("postgres"), durable=False)
    file = tmp_path / "reckoner.tar"
    with postgres.running():
        manage = Manage(layout, DATABASE_URL=postgres.url())
        script = tmp_path / "fill.py"
        script.write_text(FILL)
        filled = subprocess.run(
            [sys.executable, str(script), str(tmp_path / "model")], cwd=PROJECT_ROOT, capture_output=True, text=True,
            env=manage.environment | {"DJANGO_SETTINGS_MODULE": "project.settings"}, check=True,
        )  # fmt: skip
        digest = filled.stdout.strip()
        done = manage("backup", file, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) | {"bytes": 0} == {
            "file": str(file), "bytes": 0, "artifacts": 1, "holds_artifacts": True,
        }  # fmt: skip
        assert file.stat().st_mode & 0o777 == 0o600
        again = manage("backup", file)
        assert (again.returncode, again.stderr) == (2, f"{file} is there already: name another file.\n")
    yield layout, file, digest


def test_an_instance_comes_back_from_its_backup_whole(saved: tuple[Layout, Path, str], tmp_path: Path) -> None:
    before, file, _ = saved
    layout = Layout((before.var.parent / "other").resolve())
    manage = Manage(layout)
    done = manage("restore", file, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["artifacts"], told["broken"], told["tables"] > 80) == (1, [], True)
    for secret in before.secrets.iterdir():
        assert (layout.secrets / secret.name).read_text() == secret.read_text()
    postgres = Postgres(layout.postgres, layout.locate_sockets("postgres"))
    with postgres.running(), psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SELECT slug FROM decisions_agent").fetchall() == [("filer",)]
        migrated = Manage(layout, DATABASE_URL=postgres.url())("migrate", "--check")
        assert migrated.returncode == 0, migrated.stderr

    again = manage("restore", file)
    assert again.returncode == 2 and "holds tables already" in again.stderr
    with (layout.run / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert manage("restore", file).returncode == 3


def test_what_is_damaged_is_said_and_what_is_no_backup_changes_nothing(
    saved: tuple[Layout, Path, str], tmp_path: Path
) -> None:
    before, file, digest = saved
    layout = Layout((before.var.parent / "other").resolve())
    manage = Manage(layout, DATABASE_URL="")
    cut, other, climbing = tmp_path / "cut.tar", tmp_path / "other.tar", tmp_path / "climbing.tar"
    cut.write_bytes(file.read_bytes()[:60_000])
    other.write_text("no tar at all")
    for wrong in (cut, other, tmp_path / "none.tar"):
        done = manage("restore", wrong)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    with tarfile.open(file) as old, tarfile.open(climbing, "w") as new:
        for member in old:
            content = old.extractfile(member)
            if member.name.endswith("weights.bin"):
                outside = tarfile.TarInfo("artifacts/sha256/../../../outside")
                outside.size = member.size
                new.addfile(outside, content)
            else:
                new.addfile(member, content)
    done = manage("restore", climbing)
    assert done.returncode == 1 and f"missing or damaged: {digest}" in done.stdout, done.stderr
    assert list(before.var.parent.rglob("outside")) == []


def test_a_password_is_no_argument_of_a_program() -> None:
    address, environment = split_address("postgresql://ann:s3cret@db.example:5433/ledger?sslmode=require")
    assert "s3cret" not in address and environment["PGPASSWORD"] == "s3cret"
    assert conninfo_to_dict(address) == {
        "user": "ann", "host": "db.example", "port": "5433", "dbname": "ledger", "sslmode": "require",
    }  # fmt: skip
