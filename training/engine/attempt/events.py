"""Writes `events.jsonl`: one JSON object a line, flushed at once.

The launcher follows the file while the engine runs, and reads it again after a crash. The last line may be cut short;
readers skip it.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

Kind = Literal["started", "progress", "metric", "checkpoint", "samples", "warning", "stopped", "finished", "failed"]

PROGRESS_SECONDS = 0.7
REPEAT_SECONDS = 30.0

Part = tuple[float, float]
"""A part of an attempt's work, by the shares of the whole at which it begins and ends. Each counts its own steps."""
PREPARING: Part = (0.0, 0.1)
TRAINING: Part = (0.1, 0.9)
MEASURING: Part = (0.9, 1.0)


class Events:
    """Appends events to one attempt's file. `seq` counts from 0 within the attempt."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._seq = 0
        self._last_progress = float("-inf")
        self._progress: dict[str, object] = {}
        self.warnings: list[str] = []

    def write(self, kind: Kind, **fields: object) -> None:
        event = {"seq": self._seq, "at": datetime.now(UTC).isoformat(), "kind": kind, **fields}
        self._file.write(json.dumps(event, ensure_ascii=False) + "\n")
        self._file.flush()
        self._seq += 1

    def warn(self, message: str) -> None:
        """A warning event, once however often it is given; it is repeated in the result."""
        if message in self.warnings:
            return
        self.warnings.append(message)
        self.write("warning", message=message)

    def due(self) -> bool:
        """Whether it is time to speak of progress again."""
        return time.monotonic() - self._last_progress >= PROGRESS_SECONDS

    def progress(self, step: int, total: int, message: str, part: Part = TRAINING) -> None:
        """`fraction` is of this part's steps, `share` of all that the attempt does."""
        self._last_progress = time.monotonic()
        fraction, (begin, end) = step / total if total else 1.0, part
        share = round(begin + (end - begin) * fraction, 4)
        self._progress = {"step": step, "total": total, "fraction": fraction, "share": share, "message": message}
        self.write("progress", **self._progress)

    def repeat_progress(self) -> None:
        """Writes the newest progress again, at most every `REPEAT_SECONDS`. Long steps call it between their parts: a
        run without events counts as one that hangs."""
        if self._progress and time.monotonic() - self._last_progress >= REPEAT_SECONDS:
            self._last_progress = time.monotonic()
            self.write("progress", **self._progress)

    def metric(self, step: int, values: dict[str, float]) -> None:
        self.write("metric", step=step, values=values)

    def close(self) -> None:
        self._file.close()
