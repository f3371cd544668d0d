"""F7: an export whose worker and whose engine are killed shows nothing half-made, and is whole in the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from models_registry.models import ModelVersion
from tests.engine_task import labelled
from tools.armed import PLACES, Place
from tools.export_kills import Exporter, register_adapted
from tools.warm import stand_in
from training.exports.services import start_export

IN_THE_ENGINE: Place = ("engine", "gguf", "quantise", "after")
IN_THE_WORKER: Place = ("worker", "store", "adopt", "after")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_export_outlives_its_engine_and_its_worker(base_version: ModelVersion, by: Any, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the extra `export` is not installed")
    assert {IN_THE_ENGINE, IN_THE_WORKER} <= set(PLACES)
    version = register_adapted(by=by, base=base_version, folder=tmp_path / "adapter", rows=labelled(12, 3))
    exporter = Exporter(tmp_path, stand_in(Path(os.environ["RECKONER_VAR"]), "tools.armed"), by)
    with exporter.working():
        exporter.order(IN_THE_ENGINE)
        export = start_export(by=by, version=version, format="gguf", quantisation="F16")
        for number, place in enumerate((IN_THE_ENGINE, IN_THE_WORKER)):
            exporter.await_death(export, number, place)
            assert exporter.find_half_made(export) == []
            assert export.state == "queued"
            exporter.order(IN_THE_WORKER if number == 0 else None)
            exporter.resume(export)
        exporter.await_end(export)
    assert exporter.find_half_made(export) == []
    assert (export.state, export.job.attempts) == ("ready", 3)
    assert exporter.find_left(export) == []
