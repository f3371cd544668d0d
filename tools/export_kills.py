"""Exports by a real worker that is killed, or whose engine is, at a named place (F7), and what is left of them then.

For the benchmark and a test. `tools.armed` has the programs and the places.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import psutil
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone
from safetensors.numpy import save_file

from jobs.models import Job, JobState
from jobs.sweeper import resume_alone
from models_registry.artifacts import opening as artifacts
from models_registry.artifacts.collecting import collect_artifacts
from models_registry.models import Artifact, ModelVersion
from models_registry.versions.services import NewVersion, register_version, store_artifact
from tools.armed import Order, Place
from tools.factories import ArtifactFactory, DatasetSnapshotFactory, TrainingRunFactory, put_rows
from training.exports.services import find_run_dir
from training.models import ExportJob
from workspaces.access.actors import Actor
from workspaces.access.services import create_api_key

ROOT = Path(__file__).resolve().parents[1]
RANK = 4
WAIT_SECONDS, IDLE_SECONDS = 300.0, 20.0
"""At most for one thing to happen, and while the job has ended or waits for its next attempt."""
LOOK_SECONDS = 0.05


def register_adapted(*, by: Actor, base: ModelVersion, folder: Path, rows: Sequence[Any]) -> ModelVersion:
    """A version with an adapter over the base that nobody trained, measured on these rows."""
    config = json.loads((artifacts.artifact_path(base.stored.digest) / "config.json").read_text())
    hidden, draw = config["hidden_size"], np.random.default_rng(0)
    folder.mkdir()
    at = "base_model.model.model.layers.0.self_attn.q_proj"
    shapes = {f"{at}.lora_A.weight": (RANK, hidden), f"{at}.lora_B.weight": (hidden, RANK)}
    save_file(
        {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        folder / "adapter_model.safetensors",
    )
    lora = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"],
        "base_model_name_or_path": "", "inference_mode": True,
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(lora))
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="adapter", meta={"base_model": "tiny"})
    new = NewVersion(artifact=artifact, method="posterior", base=base, parent=base)
    version = register_version(by=by, model=base.registered_model, new=new)
    agent = version.registered_model.agents.get()
    held_out = ArtifactFactory(workspace=by.workspace, kind="dataset", digest=put_rows(rows).digest)
    TrainingRunFactory(
        agent=agent, heldout=DatasetSnapshotFactory(agent=agent, artifact=held_out, rows=len(rows)), state="succeeded",
        spec={"max_prompt_tokens": 16}, produced_version=version, finished_at=version.created_at,
    )  # fmt: skip
    return version


class Exporter:
    """A worker of the queue `exports` that dies where it is ordered to. `folder` has the orders and its log, `engine`
    starts `python -m tools.armed`. Its database is this process's own."""

    def __init__(self, folder: Path, engine: Sequence[str], by: Actor) -> None:
        self.folder = folder
        self.engine_ends: list[float] = []
        """Seconds from each death of a worker to the end of its engine."""
        self._engine = [*engine, "engine", str(folder)]
        self._token = create_api_key(by=by, name="exports", scopes=["admin"]).token

    @contextmanager
    def working(self) -> Iterator[None]:
        Order().give(self.folder)
        database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
        environment = os.environ | {
            "DATABASE_URL": urlunsplit(database),
            "REDIS_URL": settings.REDIS_URL,
            "DJANGO_SETTINGS_MODULE": "project.settings_test",
            "RECKONER_ARTIFACTS": str(settings.ARTIFACTS),
            "RECKONER_RUNS": str(settings.RUNS),
        }
        command = [sys.executable, "-m", "tools.armed", "worker", str(self.folder), *self._engine]
        with (self.folder / "worker.log").open("w") as log:
            worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def order(self, place: Place | None, *, refused: bool = False) -> None:
        Order(place, int(place is not None), refused).give(self.folder)

    def deaths(self) -> list[str]:
        path = self.folder / "deaths"
        return path.read_text().splitlines() if path.exists() else []

    def resume(self, export: ExportJob) -> None:
        """As after a start: no worker holds it, and it is due."""
        Job.objects.filter(id=export.job_id, state=JobState.QUEUED).update(run_after=timezone.now())
        resume_alone(clean=False)

    def await_death(self, export: ExportJob, before: int, place: Place) -> None:
        """Returns when it has happened and the engine is gone. Raises TimeoutError where nobody came by the place."""
        self._wait(lambda: len(self.deaths()) > before, export)
        if self.deaths()[before].rpartition(" ")[0] != " ".join(place):
            raise RuntimeError(f"died elsewhere: {self.deaths()[before]}")
        died = time.monotonic()
        if place[0] == "engine":
            self._wait(lambda: Job.objects.get(id=export.job_id).state != JobState.RUNNING, export)
        self._wait(lambda: not find_engines(export), export)
        if place[0] == "worker":
            self.engine_ends.append(time.monotonic() - died)

    def await_end(self, export: ExportJob) -> None:
        self._wait(lambda: ExportJob.objects.get(id=export.id).state != "queued", export)
        self._wait(lambda: not find_engines(export), export)

    def _wait(self, over: Callable[[], bool], export: ExportJob) -> None:
        began = idle_since = time.monotonic()
        while not over():
            job = Job.objects.get(id=export.job_id)
            waits = job.state == JobState.QUEUED and job.run_after > timezone.now() + dt.timedelta(seconds=60)
            if not waits and not job.is_terminal:
                idle_since = time.monotonic()
            if max(time.monotonic() - began - WAIT_SECONDS, time.monotonic() - idle_since - IDLE_SECONDS) > 0:
                log = (self.folder / "worker.log").read_text()[-2000:]
                raise TimeoutError(f"{export}: the job is {job.state}, attempt {job.attempts}, {job.error!r}\n{log}")
            time.sleep(LOOK_SECONDS)

    def download(self, export: ExportJob) -> tuple[int, bytes]:
        """Status and body."""
        answer = Client(raise_request_exception=False).get(
            f"/api/v1/exports/{export.id}/download", headers={"Authorization": f"Bearer {self._token}"}
        )
        body = b"".join(answer) if answer.status_code == 200 else answer.content
        return answer.status_code, body

    def find_half_made(self, export: ExportJob) -> list[str]:
        """What can be seen of the export that is not whole, at any moment."""
        export.refresh_from_db()
        found = [fault for digest, _ in artifacts.list_digests() if (fault := _find_fault(digest))]
        status, body = self.download(export)
        if export.state != "ready":
            found += [] if status == 409 else [f"a download of an export that is {export.state} gives {status}"]
            found += [] if export.artifact is None else [f"{export.state} with an artifact"]
        elif export.artifact is None or status != 200:
            found.append(f"ready, and a download gives {status}")
        else:
            found += _compare_archive(body, export.artifact.digest)
        return found

    def find_left(self, export: ExportJob) -> list[str]:
        """What is there after the end and a collection that nothing holds."""
        later = timezone.now() + dt.timedelta(days=1)
        list(artifacts.remove_incoming(later))
        list(collect_artifacts(later))
        rows = Artifact.objects.filter(removed_at=None)
        held = set(rows.values_list("digest", flat=True))
        exported = rows.filter(meta__has_key="export_of")
        seen = {digest for digest, _ in artifacts.list_digests()}
        incoming = artifacts.local_root() / "incoming"
        found = [f"in the store without a row: {digest[:12]}" for digest in seen - held]
        found += [f"a row without files: {one.digest[:12]}" for one in exported if one.digest not in seen]
        found += [f"half written: {path}" for path in (incoming.rglob("*") if incoming.is_dir() else ())]
        kept = find_run_dir(export)
        found += [
            f"left of an attempt: {path.relative_to(kept)}"
            for path in kept.rglob("*")
            if path.is_file() and path.suffix != ".log" and path.name != "spec.json"
        ]
        return found + [f"no export holds {one.digest[:12]}" for one in exported.filter(exports=None)]


def find_engines(export: ExportJob) -> list[int]:
    """Ids of the processes that work in its folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(find_run_dir(export)) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _find_fault(digest: str) -> str | None:
    try:
        artifacts.verify_artifact(digest)
    except artifacts.ArtifactCorrupt as error:
        return str(error)
    return None


def _compare_archive(body: bytes, digest: str) -> list[str]:
    """Files of the artifact that the archive lacks or has otherwise."""
    with tarfile.open(fileobj=BytesIO(body)) as archive:
        sums = {
            one.name.partition("/")[2]: hashlib.sha256(archive.extractfile(one).read()).hexdigest()  # type: ignore[union-attr]
            for one in archive
            if one.isfile()
        }
    manifest = artifacts.verify_artifact(digest)
    wrong = [name for name, entry in manifest["files"].items() if sums.get(name) != entry["sha256"]]
    return [f"the archive's {name} is not the artifact's" for name in wrong]
