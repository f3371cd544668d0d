"""The episodes that a run learnt from, as JSON lines in its attempt."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from training.engine.attempt.attempt import Attempt
from training.engine.environments.episodes import Episode
from training.engine.episodes.lines import EPISODES_FILE


class NothingToLearn(RuntimeError):
    """No episode of an update can be learnt from: each ended in a fault of its environment, or earned nothing."""


def keep_episodes(attempt: Attempt, step: int, episodes: Sequence[Episode]) -> None:
    """Appends them; `step`, counted from 1, is the update that they were made for. Only the main process writes."""
    if not attempt.processes.is_main:
        return
    with (attempt.folder / EPISODES_FILE).open("ab") as file:
        for episode in episodes:
            file.write(msgspec.json.encode({"step": step, **msgspec.to_builtins(episode)}) + b"\n")
