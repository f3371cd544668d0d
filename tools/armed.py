"""Programs that kill themselves at a named place: the worker of exports, and the engine that it starts.

    python -m tools.armed worker FOLDER ENGINE…      a Celery worker of the queue `exports`; ENGINE: a command line
    python -m tools.armed engine FOLDER ARGUMENT…    the engine

FOLDER/order.json says where, how many times still, and whether the engine is to find a fault in what it has made; each
death is a line of FOLDER/deaths, written before it. `tools.export_kills` gives the orders.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Place = tuple[str, str, str, str]
"""Program, a module or class of it, its function, and on which side of it."""

PLACES: tuple[Place, ...] = (
    ("worker", "exports", "write_export", "before"),
    ("worker", "launcher", "_watch", "before"),  # the engine has just started
    ("worker", "context", "progress", "before"),  # it is at work
    ("engine", "run", "export", "before"),
    ("engine", "merged", "write", "after"),  # weights in a folder of the attempt's
    ("engine", "gguf", "_write_tensors", "before"),
    ("engine", "gguf", "quantise", "after"),  # half of the file
    ("engine", "gguf_export", "write_gguf", "after"),
    ("engine", "exporting", "_compare", "after"),
    ("engine", "run", "write_synced", "before"),  # its result
    ("engine", "run", "write_synced", "after"),
    ("worker", "exports", "write_export", "after"),
    ("worker", "local", "assemble", "after"),  # a copy in the store, not visible
    ("worker", "store", "adopt", "after"),  # visible there, of nobody
    ("worker", "services", "_note_stored", "after"),  # the workspace's, held by nothing
    ("worker", "exports", "store_export", "after"),
    ("worker", "exports", "publish_export", "before"),
    ("worker", "exports", "_end", "after"),  # in the last transaction
    ("worker", "context", "complete", "after"),
    ("worker", "exports", "publish_export", "after"),  # committed
    ("worker", "exports", "refuse_export", "before"),
    ("worker", "exports", "refuse_export", "after"),
)


@dataclass(frozen=True, slots=True)
class Order:
    """`place`: program, owner, function, and on which side of it; `times`: deaths that are still to come. `refused`:
    nothing that the engine makes reaches its bound."""

    place: Place | None = None
    times: int = 0
    refused: bool = False

    def give(self, folder: Path) -> None:
        unfinished = folder / "order.tmp"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(folder / "order.json")


def read_order(folder: Path) -> Order:
    told = json.loads((folder / "order.json").read_text())
    return Order(told["place"] and (*told["place"],), told["times"], told["refused"])


def arm(folder: Path, program: str, owners: dict[str, Any]) -> None:
    """From now on the program's places look at the order."""
    for where, owner, name in {place[:3] for place in PLACES}:
        if where == program:
            setattr(owners[owner], name, _armed(getattr(owners[owner], name), folder, (where, owner, name)))


def _armed(real: Any, folder: Path, place: tuple[str, str, str]) -> Any:
    @functools.wraps(real)
    def dies(*given: Any, **named: Any) -> Any:
        _look(folder, (*place, "before"))
        done = real(*given, **named)
        _look(folder, (*place, "after"))
        return done

    return dies


def _look(folder: Path, here: Place) -> None:
    order = read_order(folder)
    if order.place == here and order.times > 0:
        Order(here, order.times - 1, order.refused).give(folder)
        with (folder / "deaths").open("a") as deaths:
            deaths.write(f"{' '.join(here)} {os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def be_worker(folder: Path, engine: list[str]) -> None:
    import django

    django.setup()
    from django.conf import settings

    from jobs.context import JobContext
    from models_registry.store import local
    from models_registry.versions import services
    from project.celery import app
    from training.exports import services as exports
    from training.runs import launcher

    settings.JOB_RETRY_SECONDS = 3600  # who gives the orders looks around first
    launcher.ENGINE = tuple(engine)
    owners = {
        "exports": exports, "launcher": launcher, "services": services, "context": JobContext, "local": local,
        "store": local.LocalStore,
    }  # fmt: skip
    arm(folder, "worker", owners)
    words = ("--loglevel", "WARNING", "--without-gossip", "--without-mingle", "-Q", "exports", "-c", "1")
    app.worker_main(["worker", "-n", f"exporter-{os.getpid()}@kills", *words])


def be_engine(folder: Path, arguments: list[str]) -> int:
    from training.engine import run
    from training.engine.__main__ import main
    from training.engine.export import exporting, gguf, gguf_export, merged
    from training.engine.spec import export_spec

    owners = {"exporting": exporting, "gguf": gguf, "gguf_export": gguf_export, "merged": merged, "run": run}
    arm(folder, "engine", owners)
    if read_order(folder).refused:
        export_spec.find_bound = lambda format, quantisation: 1.01
    return main(arguments)


if __name__ == "__main__":
    _, role, place, *rest = sys.argv
    sys.exit(be_worker(Path(place), rest) if role == "worker" else be_engine(Path(place), rest))
