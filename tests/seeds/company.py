"""The training of both descriptions of TAC-RL, with a small base and a few episodes in the place of a large one's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.seeds.conftest import ROOT
from tests.seeds.earlier import Ran, run

FEW = {"threads": 2, "online": {"steps": 2, "prompts_per_step": 2, "group": 2, "alarms": None}}


def train(line: str, small_base: Path) -> Ran:
    """The line with its own file of settings, from the folder that is called `configs` there."""
    configs = Path("configs")
    if not configs.exists():
        configs.symlink_to(ROOT / "examples" / "configs")
    return run(line, "--model", small_base, "--tasks", 4, "--held-out", 4, "--set", json.dumps(FEW), "--json")


def episodes(output: Path, kind: str) -> list[dict[str, Any]]:
    path = output / "run" / "attempts" / "1" / f"{kind}_episodes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]
