"""The config.json of a hub's model that has not been downloaded: fetched by itself, so that the model is checked before
a run is queued and before its weights come down.

A process of the engine's asks the hub, with the settings of the environment (HF_TOKEN, HF_HOME, HF_HUB_OFFLINE).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from training.runs.estimates.capacity import find_folder_of_model
from training.runs.launcher import LAST_WORDS, engine_environment

FETCH_CONFIG = (sys.executable, "-m", "training.engine.models.fetching", "--config")
SECONDS = 10.0
"""The longest that a page or a call waits for a hub."""
SILENT_SECONDS = 300.0
"""A hub that gave nothing is asked again after this time: the form of a run asks at every change."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The `folder` with the model's config.json; where there is none, `why` it could not be had."""

    folder: Path | None
    why: str = ""


_refused: dict[str, tuple[float, str]] = {}


def find_model_files(name: str) -> ModelFiles:
    """Of a folder, or of a hub id: what has been downloaded, else its config.json alone, fetched now."""
    folder = find_folder_of_model(name)
    if name.startswith("/") or (folder is not None and (folder / "config.json").is_file()):
        return ModelFiles(folder)
    since, why = _refused.get(name, (0.0, ""))
    if why and time.monotonic() - since < SILENT_SECONDS:
        return ModelFiles(None, why)
    found = _fetch(name)
    if found.folder is None:
        _refused[name] = time.monotonic(), found.why
    return found


def _fetch(name: str) -> ModelFiles:
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return ModelFiles(None, "HF_HUB_OFFLINE is set")
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
            [*FETCH_CONFIG, name],
            cwd=settings.BASE_DIR,
            env=engine_environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ModelFiles(None, f"the hub did not answer within {SECONDS:g} seconds")
    if done.returncode != 0:
        return ModelFiles(None, done.stderr.strip()[-LAST_WORDS:] or "the hub gave no reason")
    return ModelFiles(Path(json.loads(done.stdout)["folder"]))


def forget_hubs() -> None:
    """Asks hubs again that gave nothing."""
    _refused.clear()
