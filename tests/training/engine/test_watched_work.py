"""Work that cannot look at the stop flag: its progress is heard, and a stop ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from training.engine.spec.run_spec import EXIT_STOPPED

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import pathlib, sys, time
from training.engine.attempt import stop
from training.engine.attempt.events import Events
stop.LOOK_SECONDS, stop.BEAT_SECONDS = 0.01, 0.05
flag, events = stop.StopFlag(), Events(pathlib.Path(sys.argv[1]))
flag.watch_stdin()
with stop.watched(flag, events, 0.5, "tracing"):
    time.sleep(0.2)
events.write("finished")
with stop.watched(flag, events, 0.5, "tracing more"):
    print("tracing", flush=True)
    time.sleep(600)
"""


def test_work_in_one_piece_tells_how_long_it_takes_and_ends_when_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "events.jsonl")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"tracing\n"
        process.stdin.close()  # its supervisor is gone
        assert process.wait(60) == EXIT_STOPPED
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    first, *beats = [event for event in events if event["kind"] == "progress" and "more" not in event["message"]]
    assert (first["fraction"], first["message"]) == (0.5, "tracing")
    assert beats and all(beat["message"] == "tracing, 0 s" for beat in beats)
    assert [event["kind"] for event in events if event["kind"] != "progress"] == ["finished", "stopped"]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["reason"] == "end of standard input"
