"""One tiny base model for the whole session, and a way to start the engine as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine_world import World, engine, labelled, write_run

from tests.once import made_once
from training.runs import launcher

ROOT = Path(__file__).resolve().parents[3]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """transformers 5 warns of names it has itself deprecated; that is not this project's to mend."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))


@pytest.fixture(scope="session")
def world() -> World:
    """A base that has learned the task half: good enough to act, with much left to learn."""
    taught, stream, heldout = labelled(120, 1), labelled(1000, 2), labelled(400, 3)

    def make(folder: Path) -> None:
        spec = {
            "method": "pretrain",
            "base": {"tiny": {"vocabulary": 500, "hidden": 64}},
            "optimiser": {"learning_rate": 3e-3, "epochs": 10, "batch_size": 32},
            "evaluate": {"free_rows": 100},
        }
        run = write_run(folder / "pretrain", spec, train=taught, heldout=heldout)
        assert engine(run) == 0
        base = {"path": str(run / "attempts/1/model")}
        spec = {"method": "evaluate", "base": base, "evaluate": {"free_rows": 0}}
        assert engine(write_run(folder / "score", spec, heldout=stream)) == 0

    here = Path(__file__)
    sources = (ROOT / "training" / "engine", here, here.with_name("engine_world.py"))
    folder = made_once("world", make, sources=sources)
    run = folder / "pretrain"
    lines = (folder / "score/attempts/1/predictions.jsonl").read_text().splitlines()
    return World(run / "attempts/1/model", run, taught, stream, heldout, [json.loads(line)["p"] for line in lines])


@pytest.fixture(scope="session")
def base_folder(world: World) -> Path:
    return world.base


Launcher = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def launch(warm_engine: None) -> Iterator[Launcher]:
    """Starts `python -m training.engine` (see tools/warm.py); whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*launcher.ENGINE, *arguments],
            cwd=ROOT,
            env=launcher.engine_environment() | environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                pipe.close()
