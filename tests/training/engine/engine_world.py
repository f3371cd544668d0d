"""A small world of notes to be filed, and ways to lay out and run an engine run. Read by this folder's tests."""

from __future__ import annotations

import json
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = {
    "finance": "invoice bank tax payment salary budget loan refund mortgage dividend receipt credit",
    "travel": "flight hotel passport luggage visa itinerary airport train cruise booking ticket beach",
    "travel plans": "route stopover backpack sights museum island weekend roadtrip campsite rental scenic detour",
    "health": "doctor vaccine dentist pills therapy clinic allergy surgery fever nurse pharmacy injury",
    "work": "meeting deadline project client sprint manager report roadmap hiring standup slides launch",
    "work at home": "desk headset webcam router broadband chair monitor printer commute quiet study laptop",
}
FILLERS = (
    "please remember to check about my new and with for next week before friday then ask sam if this is ready".split()  # noqa: SIM905
)
OPTIONS = list(WORDS)

QUIET_TRL = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "report_to": [],
    "disable_tqdm": True,
}
"""Arguments of TRL's trainers in tests: nothing but the training."""


def note(rng: random.Random) -> tuple[str, str]:
    """A note and its right folder: two of its words give the folder away, the third may mislead."""
    folder = rng.choice(OPTIONS)
    words = rng.sample(WORDS[folder].split(), 2) + rng.sample(FILLERS, 4)
    if rng.random() < 0.3:
        words.append(rng.choice(WORDS[rng.choice(OPTIONS)].split()))
    rng.shuffle(words)
    return " ".join(words), folder


def labelled(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    notes = [note(rng) for _ in range(count)]
    return [
        {"id": f"{seed}-{i}", "prompt": text, "options": OPTIONS, "answer": folder, "group": f"g{i % 7}"}
        for i, (text, folder) in enumerate(notes)
    ]


def logged(rows: list[dict[str, Any]], probabilities: list[list[float]], seed: int) -> list[dict[str, Any]]:
    """What a policy that acts by p^2, a tenth of it at random, would have logged; one reward in ten is missing."""
    rng = random.Random(seed)
    log = []
    for row, p in zip(rows, probabilities, strict=True):
        squares = [value**2 for value in p]
        acting = [0.9 * value / sum(squares) + 0.1 / len(p) for value in squares]
        action = rng.choices(range(len(p)), acting)[0]
        right = row["options"][action] == row["answer"]
        reward = None if rng.random() < 0.1 else float(right != (rng.random() < 0.03))
        log.append(
            {
                "id": row["id"],
                "prompt": row["prompt"],
                "options": row["options"],
                "action": row["options"][action],
                "propensity": acting[action],
                "reward": reward,
            }
        )
    return log


def write_run(folder: Path, spec: dict[str, Any], **data: list[dict[str, Any]]) -> Path:
    """Lays out a run's folder. The keywords are the spec's data fields."""
    (folder / "data").mkdir(parents=True)
    for name, rows in data.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "data" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    paths = {name: f"data/{name}.jsonl" for name in data}
    full = {"run_id": folder.name, "threads": 1, "max_prompt_tokens": 32, "samples": 0} | spec
    full["data"] = paths | spec.get("data", {})
    (folder / "spec.json").write_text(json.dumps(full), encoding="utf-8")
    return folder


def read_events(run: Path, attempt: int = 1) -> list[dict[str, Any]]:
    """Whole lines only: the engine may be writing the last one."""
    path = run / "attempts" / str(attempt) / "events.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def read_result(run: Path, attempt: int = 1) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((run / "attempts" / str(attempt) / "result.json").read_text())
    return result


def engine(run: Path, *arguments: str) -> int:
    """The engine in this process: the same entry point, without seconds of imports."""
    from training.engine.__main__ import main

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return main([str(run), *arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class World:
    """`base` is a pretrained model's folder; `probabilities` are what it thinks of `stream`."""

    base: Path
    pretrained: Path
    taught: list[dict[str, Any]]
    stream: list[dict[str, Any]]
    heldout: list[dict[str, Any]]
    probabilities: list[list[float]]
