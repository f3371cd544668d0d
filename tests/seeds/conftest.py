"""A small base in the place of the earlier systems' large ones, and a folder of one's own to call commands in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.once import made_once
from tests.seeds import notes
from tests.seeds.earlier import run_ours
from tools.factories import WorkspaceFactory
from training.local import watching
from workspaces.access.actors import system

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def small_base(warm_engine: None) -> Path:
    """A tiny model that has learnt to choose as the notes app's FILER and PRIORITIZER, with room for long prompts."""
    sources = (ROOT / "training" / "engine", ROOT / "decisions" / "agents", Path(notes.__file__), Path(__file__))
    return made_once("seeds-base", _teach, sources=sources) / "out/model"


def _teach(folder: Path) -> None:
    rows = [notes.as_labelled(kind, number) for kind in ("FILER", "PRIORITIZER") for number in range(64)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    room = json.dumps({"max_prompt_tokens": 4096, "max_completion_tokens": 1024, "threads": 2})
    told = run_ours(
        "train", "--data", folder / "rows.jsonl", "--output", folder / "out", "--model", "tiny", "--method",
        "pretrain", "--epochs", 6, "--batch-size", 8, "--learning-rate", 3e-3, "--set", room,
    )  # fmt: skip
    assert told.code == 0, told.errors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a module's commands are called. What other tests train meanwhile is not the newest training here."""
    place, before = tmp_path_factory.mktemp("there"), Path.cwd()
    os.chdir(place)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(watching, "NEWEST", f"newest-{os.getpid()}-{place.name}.json")
        yield place
    os.chdir(before)


@pytest.fixture(scope="module")
def home(module_db: None) -> Any:
    """A workspace with the notes app's five agents."""
    workspace = WorkspaceFactory(slug="there", name="There")
    assert run_ours("create_notes_agents").code == 0
    return system(workspace)
