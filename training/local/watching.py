"""What `manage.py train` is doing in its folder, as `manage.py monitor` shows it; no database is needed.

The training leaves a note in its folder, and the folder's path in RECKONER_VAR, so that the newest one is found.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.utils import timezone

from training.run_states import RunState
from training.runs.launcher import write_atomically
from training.runs.shown.monitoring import price_of, sort_figures

NOTE = "process.json"
NEWEST = "newest-training.json"
ENDS = {"finished": RunState.SUCCEEDED, "failed": RunState.FAILED, "stopped": RunState.CANCELLED}
GONE = "its process ended without saying how"


def leave_note(run_dir: Path, estimated_seconds: float | None) -> None:
    """Says that this process trains in `run_dir`, the engine's folder, from now on."""
    note = {"pid": os.getpid(), "started_at": timezone.now().isoformat(), "estimated_seconds": estimated_seconds}
    write_atomically(run_dir / NOTE, json.dumps(note))
    Path(settings.VAR).mkdir(parents=True, exist_ok=True)
    write_atomically(Path(settings.VAR) / NEWEST, json.dumps(str(run_dir)))


def find_newest_folder() -> Path | None:
    """The engine's folder of the training that began last on this machine; None where there is none any more."""
    try:
        folder = Path(json.loads((Path(settings.VAR) / NEWEST).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
    return folder if (folder / NOTE).is_file() else None


def find_run_folder(output: Path) -> Path | None:
    """The engine's folder in the output folder of a training; None of any other folder."""
    return next((place for place in (output / "run", output) if (place / NOTE).is_file()), None)


def began_at(run_dir: Path) -> dt.datetime:
    return dt.datetime.fromisoformat(str(_read_note(run_dir)["started_at"]))


def observe_folder(run_dir: Path) -> dict[str, Any]:
    """The same plain values as `training.runs.shown.monitoring.observe_run` has of a run in the registry."""
    note, spec = _read_note(run_dir), json.loads((run_dir / "spec.json").read_text(encoding="utf-8"))
    figures: dict[str, float] = {}
    told: dict[str, Any] = {"steps": 0, "progress": 0.0, "message": "", "warning": None, "error": ""}
    state, last = (RunState.RUNNING if psutil.pid_exists(note["pid"]) else RunState.FAILED), None
    for event in _read_events(run_dir):
        kind, last = event["kind"], event["at"]
        if kind == "metric":
            figures |= event["values"]
            told["steps"] = event["step"]
        elif kind == "progress":
            told |= {"progress": max(told["progress"], event["share"]), "message": event["message"]}
        elif kind == "warning":
            told["warning"] = event["message"]
        elif kind in ENDS:
            state = ENDS[kind]
            told["error"] = event.get("error") or event.get("reason") or ""
    if state is RunState.FAILED and not told["error"]:
        told["error"] = GONE
    if state is RunState.SUCCEEDED:
        told["progress"] = 1.0
    until = timezone.now() if state is RunState.RUNNING or last is None else dt.datetime.fromisoformat(last)
    seconds = max(0.0, (until - began_at(run_dir)).total_seconds())
    running = state is RunState.RUNNING and told["progress"] > 0
    estimated = note["estimated_seconds"]
    return told | {
        "run": str(run_dir.parent),
        "name": f"{spec['method']} by manage.py train",
        "state": str(state),
        "figures": sort_figures(figures),
        "elapsed_seconds": round(seconds),
        "left_seconds": round(seconds / told["progress"] - seconds) if running else None,
        "estimated_seconds": estimated,
        "cost": price_of(seconds),
        "estimated_cost": price_of(estimated) if estimated is not None else None,
        "version": None,
    }


def has_ended(run_dir: Path) -> bool:
    """Whether the process that trained there is gone."""
    pid = _read_note(run_dir)["pid"] if (run_dir / NOTE).is_file() else None
    return pid in (None, os.getpid()) or not psutil.pid_exists(pid)


def _read_note(run_dir: Path) -> dict[str, Any]:
    note: dict[str, Any] = json.loads((run_dir / NOTE).read_text(encoding="utf-8"))
    return note


def _read_events(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Those of the newest attempt, without a line that is still being written."""
    attempts = sorted(run_dir.glob("attempts/*"), key=lambda attempt: int(attempt.name))
    path = attempts[-1] / "events.jsonl" if attempts else None
    if path is not None and path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)
