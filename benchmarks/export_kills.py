"""F7: the worker that exports a version, and its engine, are killed again and again at named places.

    python -m benchmarks.export_kills [--quick] [--at WORD…]

A tiny version with an adapter is exported as GGUF by a Celery worker of the queue `exports`. At each place of
`tools.armed` it is killed ten times: an export three times, which ends it, the next one of the same version twice, and
so once more. After each death nothing half-made may be seen or downloaded; in the end the export is ready with the
bytes of its manifest, or has failed with the reason, and after a collection nothing is left that nothing holds. Then
an export as ONNX is cancelled while it is traced. Engines start by fork from a process that has imported torch. Prints
a row per point and one JSON object as the last line. Needs the extra `export`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.own_database import own_database
from tools.armed import PLACES, Place
from tools.report import Report, log
from tools.warm import stand_in

if TYPE_CHECKING:
    from models_registry.models import ModelVersion
    from tools.export_kills import Exporter
    from training.models import ExportJob

GGUF = {"format": "gguf", "quantisation": "F16"}
ROUNDS = (3, 2, 3, 2)
"""Deaths of each export at one place, of which an export survives two."""
END_SECONDS = 10.0
"""Until an engine without its worker has ended, and an export that is cancelled."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one death at each place")
    parser.add_argument(
        "--at", nargs="+", default=[""], metavar="WORD", help="at places with one of these in their name"
    )
    options = parser.parse_args()
    places = [place for place in PLACES if any(word in ".".join(place) for word in options.at)]
    if not places:
        parser.error(f"--at: none of {', '.join('.'.join(place) for place in PLACES)}")
    report = Report("export kills")
    with own_database(), tempfile.TemporaryDirectory(prefix="reckoner-kills-") as folder:
        _run(report, Path(folder), places, options.quick)
    return report.finish()


def _run(report: Report, folder: Path, places: list[Place], quick: bool) -> None:
    from django.conf import settings

    from models_registry.versions.services import NewVersion, register_version, store_artifact
    from tools.export_kills import Exporter, register_adapted
    from tools.exported_shapes import write_shape
    from tools.factories import AgentVersionFactory, RewardSpecFactory
    from workspaces.access.actors import system

    settings.ARTIFACTS, settings.RUNS = str(folder / "artifacts"), folder / "runs"
    for name in ("project.middleware", "jobs.sweeper"):  # each death and each look would be a line
        logging.getLogger(name).setLevel(logging.ERROR)
    agent = AgentVersionFactory().agent
    RewardSpecFactory(agent=agent)
    by = system(agent.workspace)
    shape = write_shape(folder / "base", "qwen2", 64)
    artifact = store_artifact(workspace=by.workspace, folder=shape, kind="model", meta={"made": "for kills"})
    base = register_version(by=by, model=agent.registered_model, new=NewVersion(artifact=artifact, method="pretrain"))
    options = ["finance", "travel", "health"]
    rows = [
        {"id": str(number), "prompt": f"note {number}", "options": options, "answer": options[number % 3], "group": "g"}
        for number in range(12)
    ]
    adapted = register_adapted(by=by, base=base, folder=folder / "adapter", rows=rows)

    def another() -> ModelVersion:
        new = NewVersion(artifact=adapted.artifact, method="posterior", base=base, parent=adapted)
        return register_version(by=by, model=base.registered_model, new=new)

    exporter = Exporter(folder, stand_in(folder, "tools.armed"), by)
    with exporter.working():
        for place in places:
            _kill_at(report, exporter, place, by, another, quick)
        _cancel(report, exporter, by, another())
    slowest = max(exporter.engine_ends, default=0.0)
    report.add(
        "seconds from the death of a worker to the end of its engine",
        bound=f"<= {END_SECONDS:g}",
        figure=f"{slowest:.2f}",
        passed=slowest <= END_SECONDS,
    )


def _kill_at(report: Report, exporter: Exporter, place: Place, by: Any, another: Any, quick: bool) -> None:
    refusing, committed = (
        place[2] == "refuse_export",
        place[2:] in (("publish_export", "after"), ("refuse_export", "after")),
    )
    rounds = (1,) if quick else (1,) * 10 if committed else ROUNDS
    faults: list[str] = []
    ends: list[str] = []
    hits, version, began = 0, None, time.monotonic()
    for deaths in rounds:
        version = version or another()
        export = None
        for _ in range(deaths):
            before = len(exporter.deaths())
            exporter.order(place, refused=refusing)
            export = _begin(exporter, by, version, export)
            exporter.await_death(export, before, place)
            hits += 1
            faults += exporter.find_half_made(export)
        assert export is not None
        if not committed:
            exporter.order(None, refused=refusing)
            exporter.resume(export)
        exporter.await_end(export)
        faults += exporter.find_half_made(export) + exporter.find_left(export)
        faults += _find_wrong_end(export, "failed" if deaths == 3 else "refused" if refusing else "ready")
        ends.append(export.state)
        version = version if export.state == "failed" else None  # it is asked for again
    log(f"{' '.join(place)}: {hits} in {time.monotonic() - began:.0f} s, {ends}")
    told = ", ".join(f"{ends.count(state)} {state}" for state in sorted(set(ends)))
    report.add(
        f"F7: {place[0]} killed {place[3]} {place[1]}.{place[2]}",
        bound=f"{sum(rounds)} hits, no fault",
        figure=f"{hits}; {told}" + "".join(f"; {fault}" for fault in sorted(set(faults))),
        passed=hits == sum(rounds) and not faults,
    )


def _begin(exporter: Exporter, by: Any, version: ModelVersion, export: ExportJob | None) -> ExportJob:
    from training.exports.services import start_export

    if export is None:
        return start_export(by=by, version=version, **GGUF)
    exporter.resume(export)
    return export


def _find_wrong_end(export: ExportJob, state: str) -> list[str]:
    export.refresh_from_db()
    if export.state != state:
        return [f"{export.state} and not {state}: {export.error}"]
    if state == "failed" and not export.error:
        return ["failed without a reason"]
    return []


def _cancel(report: Report, exporter: Exporter, by: Any, version: ModelVersion) -> None:
    from jobs.models import Job
    from training.exports.services import cancel_export, start_export

    exporter.order(None)
    export = start_export(by=by, version=version, format="onnx")
    messages: list[str] = []
    give_up = time.monotonic() + 120
    # One is enough to know: they come every five seconds, and on a quick machine the trace is over after two.
    while not messages and time.monotonic() < give_up:
        message = Job.objects.get(id=export.job_id).message
        messages += [message] if message.startswith("writing onnx") else []
        time.sleep(0.1)
    began = time.monotonic()
    cancel_export(by=by, export=export)
    exporter.await_end(export)
    seconds = time.monotonic() - began
    faults = _find_wrong_end(export, "failed") + exporter.find_half_made(export) + exporter.find_left(export)
    report.add(
        "an export as ONNX tells of its progress and is cancelled while it is traced: seconds",
        bound=f"told; <= {END_SECONDS:g}",
        figure=f"{', '.join(messages)}; {seconds:.2f}; {export.error}" + "".join(f"; {fault}" for fault in faults),
        passed=len(messages) == 1 and seconds <= END_SECONDS and not faults and export.error == "cancelled",
    )


if __name__ == "__main__":
    sys.exit(main())
