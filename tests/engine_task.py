"""A small filing task for real engine runs, and a pretrained model of it for the whole session (see conftest.py)."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models_registry.models import ModelVersion
from models_registry.versions.services import NewVersion, register_version, store_artifact
from tests.once import made_once
from tools.factories import OPTIONS
from training.runs import launcher

ROOT = Path(__file__).resolve().parents[1]
WORDS = {
    "finance": "invoice bank tax payment salary budget loan refund mortgage receipt".split(),  # noqa: SIM905
    "travel": "flight hotel passport luggage visa itinerary airport train cruise ticket".split(),  # noqa: SIM905
    "health": "doctor vaccine dentist pills therapy clinic allergy surgery fever nurse".split(),  # noqa: SIM905
}
# Small enough for seconds, and one thread: the tests share the machine.
TINY = {
    "base": {"tiny": {"vocabulary": 400, "hidden": 32, "heads": 4, "key_value_heads": 2, "max_positions": 128}},
    "optimiser": {"learning_rate": 0.005, "epochs": 2, "batch_size": 32},
    "max_prompt_tokens": 16,
    "threads": 1,
}


def labelled(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        answer = rng.choice(OPTIONS)
        text = " ".join(rng.sample(WORDS[answer], 3))
        rows.append(
            {"id": f"{seed}-{number}", "prompt": text, "options": list(OPTIONS), "answer": answer,
             "group": f"g{number % 15}"}
        )  # fmt: skip
    return rows


@pytest.fixture(scope="session")
def tiny_run(warm_engine: None) -> Path:
    """A finished run folder: attempts/1 holds a model that has learned the task a little."""
    return made_once("tiny", _train, sources=(ROOT / "training" / "engine", Path(__file__)))


def _train(folder: Path) -> None:
    train_run(folder, train=labelled(96, 1), heldout=labelled(60, 2), spec={**TINY, "method": "pretrain"})


def train_run(folder: Path, *, train: list[Any], heldout: list[Any], spec: dict[str, Any]) -> None:
    """A run of the engine on these rows: attempts/1 holds what it made."""
    (folder / "data").mkdir(parents=True)
    for name, rows in (("train", train), ("heldout", heldout)):
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train": "data/train.jsonl", "heldout": "data/heldout.jsonl"}
    whole = {"run_id": "tiny", "data": data, "evaluate": {"free_rows": 10}, **spec}
    (folder / "spec.json").write_text(json.dumps(whole))
    subprocess.run(
        [*launcher.ENGINE, str(folder), "--attempt", "1"],
        cwd=ROOT,
        check=True,
        env=launcher.engine_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


@pytest.fixture
def base_version(tiny_run: Path, store: Path, by: Any, agent: Any) -> Iterator[ModelVersion]:
    """Version 1 of FILER, its champion: the tiny model, in this test's own store."""
    folder = tiny_run / "attempts" / "1" / "model"
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="model", meta={"made": "for tests"})
    yield register_version(by=by, model=agent.registered_model, new=NewVersion(artifact=artifact, method="pretrain"))
