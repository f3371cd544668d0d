"""`manage.py train`: trains on a file or on an agent's rewarded decisions, into a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent, AgentKind
from training.engine.methods import HELP, TRAINING
from training.errors import EmptyDataset, EngineFailed
from training.local_runs import (
    Interrupted,
    Training,
    UnusableRun,
    check_training,
    read_rows,
    rows_of_agent,
    train_here,
)
from workspaces.actors import system
from workspaces.commands import UncheckedCommand

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130


class Command(UncheckedCommand):
    help = (
        "Trains a model on rows of a file, such as export_training_data wrote, or on an agent's rewarded decisions,"
        " into a folder. It needs no running instance and registers no version (manage.py runs start does). Exit codes:"
        " 0 trained, 1 the training failed, or no decision makes a row, 2 the input is invalid (every fault is named),"
        " 130 interrupted: the same command resumes from the checkpoint."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        rows = parser.add_mutually_exclusive_group(required=True)
        rows.add_argument("--agent-type", help="a kind (FILER, LIBRARIAN, …) or the slug of one agent")
        rows.add_argument(
            "--data", type=Path, help="JSON lines: labelled, logged or exported rows, or preference pairs"
        )
        parser.add_argument("--output", required=True, type=Path, help="folder for the weights; empty or new")
        parser.add_argument(
            "--model", default="meta-llama/Llama-3.1-8B-Instruct", help="hub id, folder, or tiny (default: %(default)s)"
        )
        parser.add_argument("--method", default="ppo", choices=list(TRAINING), help=f"default: %(default)s. {HELP}")
        parser.add_argument("--epochs", type=int, default=3, help="passes over the rows (default: %(default)s)")
        parser.add_argument("--batch-size", type=int, default=4, help="rows of an update (default: %(default)s)")
        parser.add_argument("--learning-rate", type=float, default=1.41e-5, help="default: %(default)s")
        parser.add_argument(
            "--no-quantization", action="store_true", help="hold the base in full; 4 bits need CUDA and bitsandbytes"
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            agent = self._find_agent(options) if options["data"] is None else None
            asked = Training(
                method=options["method"],
                base=options["model"],
                agent_kind=agent.kind if agent is not None else "",
                epochs=options["epochs"],
                batch_size=options["batch_size"],
                learning_rate=options["learning_rate"],
                quantised=not options["no_quantization"],
            )
            check_training(asked)
            rows = rows_of_agent(by=system(agent.workspace), agent=agent) if agent else read_rows(options["data"])
            result = train_here(asked, rows, options["output"], self._say)
        except UnusableRun as error:
            self.refuse("\n".join(error.faults))
        except (EngineFailed, EmptyDataset) as error:
            self.stderr.write(str(error))
            sys.exit(EXIT_FAILED)
        except Interrupted as error:
            self.stderr.write(str(error))
            sys.exit(EXIT_INTERRUPTED)
        made = options["output"] / str(result.output)
        plain = {
            "output": str(made),
            "method": result.method,
            "rows": result.rows,
            "steps": result.steps,
            "seconds": result.seconds,
            "weights_sha256": result.weights_sha256,
            "metrics": result.metrics,
            "warnings": result.warnings,
        }
        says = f"{made}: {result.method} on {result.rows} rows in {result.seconds:.0f} s"
        self.stdout.write(json.dumps(plain) if options["json"] else says)

    def _say(self, text: str) -> None:
        self.stderr.write(text, str)  # progress is no error, and not red

    def _find_agent(self, options: dict[str, Any]) -> Agent:
        """Raises UnusableRun."""
        wanted = options["agent_type"]
        agents = Agent.objects.for_workspace(self.find_workspace(options["workspace"])).select_related("workspace")
        found = list(agents.filter(**{"kind" if wanted in AgentKind.values else "slug": wanted})[:2])
        if len(found) != 1:
            known = ", ".join(agents.values_list("slug", flat=True)) or "none"
            raise UnusableRun([f"--agent-type: {len(found) or 'no'} agents are {wanted!r}; name one of: {known}"])
        return found[0]
