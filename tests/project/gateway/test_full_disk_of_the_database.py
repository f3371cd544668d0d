"""The database's disk is full: 507 with the reason, nothing is kept, and chats work again once there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection

from decisions.models import Decision
from models_registry.models import Call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "When does the train leave?"}]}
SPACE = "small_disk"


@pytest.fixture
def small_disk(transactional_db: None) -> Iterator[Path]:
    """A file system of 1 MiB, which is a tablespace of the database; it belongs to the server's user."""
    place = Path(tempfile.mkdtemp(prefix="reckoner-small-"))
    with connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        data = Path(cursor.fetchone()[0])
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if not data.exists() or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        place.rmdir()
        pytest.skip("mounting a small file system for a database of this machine needs root")
    owner = data.stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    place.chmod(0o700)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLESPACE {SPACE} LOCATION '{place}'")
        yield place
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT relid::regclass::text FROM pg_stat_user_tables WHERE relid IN ({ON_IT})")
            for (table,) in cursor.fetchall():
                cursor.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default")
            cursor.execute(f"DROP TABLESPACE {SPACE}")
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


ON_IT = f"SELECT c.oid FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE t.spcname = '{SPACE}'"


@pytest.fixture
def fill(small_disk: Path) -> Callable[[str], Path]:
    """Moves a table with its partitions there, and fills what is left; the file that fills it."""

    def fill(table: str) -> Path:
        with connection.cursor() as cursor:
            cursor.execute("SELECT relid::text FROM pg_partition_tree(%s) WHERE isleaf", [table])
            for (leaf,) in cursor.fetchall() or [(table,)]:
                cursor.execute(f"VACUUM FULL {leaf}")  # no room of deleted rows
                cursor.execute(f"ALTER TABLE {leaf} SET TABLESPACE {SPACE}")
        ballast = small_disk / "ballast"
        with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        return ballast

    return fill


@pytest.mark.parametrize(
    ("table", "asked"), [("models_registry_call", 0), ("decisions_decision", 1)], ids=["to open a call", "to record it"]
)
def test_a_chat(ask: httpx.Client, helper: Any, fill: Callable[[str], Path], table: str, asked: int) -> None:
    ballast = fill(table)
    answer = ask.post("/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full"), answer.text
    assert "The database's disk is full." in answer.json()["error"]["message"]
    assert not Decision.objects.exists() and not Call.objects.filter(state="open").exists()
    assert len(helper[2].asked) == asked
    ballast.unlink()
    assert ask.post("/chat/completions", json=CHAT).status_code == 200
    assert Decision.objects.count() == 1
