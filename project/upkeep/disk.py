"""Disk use: the instance's folders by kind, and the database by table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection

from models_registry.artifacts.opening import local_root
from project.upkeep.lifetimes import LIVES

# A partition counts for its table. Row counts are PostgreSQL's own estimates.
TABLES = """
SELECT coalesce(parent.relname, own.relname), sum(pg_total_relation_size(own.oid)), sum(nullif(own.reltuples, -1))
  FROM pg_class own
  JOIN pg_namespace space ON space.oid = own.relnamespace AND space.nspname = current_schema()
  LEFT JOIN pg_inherits ON inhrelid = own.oid
  LEFT JOIN pg_class parent ON parent.oid = inhparent
 WHERE own.relkind = 'r'
 GROUP BY 1 ORDER BY 2 DESC, 1
"""


@dataclass(frozen=True, slots=True)
class Use:
    """One kind of file. `bytes`: on the disk, a file with several names once; `kept`: for how long, in words."""

    kind: str
    what: str
    bytes: int
    files: int
    kept: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table with its indexes and partitions; `rows` is an estimate, None before there is one."""

    table: str
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Everything, the largest first. `free_bytes` and `size_bytes` are of the file system that holds `var/`."""

    kinds: list[Use]
    tables: list[Table]
    database_bytes: int
    used_bytes: int
    free_bytes: int
    size_bytes: int


def measure_disk() -> DiskUsage:
    """Walks every folder of the instance: seconds for some hundred thousand files."""
    tables, database = _measure_tables()
    kinds = sorted([_database_use(database), *_measure_files(database)], key=lambda use: -use.bytes)
    disk = shutil.disk_usage(settings.VAR)
    return DiskUsage(kinds, tables, database, sum(use.bytes for use in kinds), disk.free, disk.total)


def _measure_tables() -> tuple[list[Table], int]:
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        tables = [Table(name, int(size), None if rows is None else int(rows)) for name, size, rows in cursor.fetchall()]
        cursor.execute("SELECT pg_database_size(current_database())")
        return tables, int(cursor.fetchone()[0])


def _database_use(size: int) -> Use:
    months = settings.KEEP_MONTHS
    kept = f"the ledger for {months} months" if months else "forever"
    return Use("database", "Database: the ledger and all state", size, 0, kept)


KINDS = {
    "artifacts": ("Models, adapters and datasets", "while something uses them"),
    "incoming": ("Artifacts being written or removed", "incoming"),
    "checkpoints": ("Checkpoints of runs", "run files"),
    "weights": ("Copies of weights of runs", "run files"),
    "exports": ("Working folders of exports", "run files"),
    "runs": ("Runs: specs, results, predictions, events and logs", "forever"),
    "logs": ("Logs of the programs", "10 MB and three older files per program"),
    "postgresql": ("PostgreSQL: write-ahead log and system catalogs", "managed by PostgreSQL"),
    "other": ("Other files of the instance", "forever"),
}


def _measure_files(database: int) -> list[Use]:
    """Every kind that there is. An embedded PostgreSQL's folder counts for what lies in it beside the database."""
    sizes = dict.fromkeys(KINDS, 0)
    counts = dict.fromkeys(KINDS, 0)
    artifacts, runs, var = local_root(), Path(settings.RUNS), Path(settings.VAR)
    seen: set[tuple[int, int]] = set()
    for top in dict.fromkeys((artifacts, runs, var)):
        for path, found in _walk(top, {artifacts, runs} - {top}):
            if found.st_nlink > 1:
                if (found.st_dev, found.st_ino) in seen:
                    continue
                seen.add((found.st_dev, found.st_ino))
            kind = _kind_of(Path(path).relative_to(top).parts, top, artifacts, runs)
            sizes[kind] += found.st_blocks * 512
            counts[kind] += 1
    sizes["postgresql"] = max(0, sizes["postgresql"] - database)
    lives = {life.kind: life.kept for life in LIVES}
    return [Use(kind, what, sizes[kind], counts[kind], lives.get(kept, kept)) for kind, (what, kept) in KINDS.items()]


def _kind_of(parts: tuple[str, ...], top: Path, artifacts: Path, runs: Path) -> str:
    if top == artifacts:
        return "incoming" if parts[0] == "incoming" else "artifacts"
    if top == runs:
        if parts[0].startswith("export-"):
            return "exports"
        # <run>/attempts/<fence>/<what>/…
        inside = parts[3] if len(parts) > 4 and parts[1] == "attempts" else ""
        return {"checkpoints": "checkpoints", "model": "weights", "adapter": "weights"}.get(inside, "runs")
    return {"log": "logs", "postgres": "postgresql"}.get(parts[0], "other")


def _walk(folder: Path, without: set[Path]) -> Iterator[tuple[str, os.stat_result]]:
    """Files below, but for those of other kinds, and what this user may not read or what goes meanwhile."""
    left = [str(folder)]
    skipped = {str(path) for path in without}
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.path not in skipped:
                        left.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)
            except OSError:
                continue
