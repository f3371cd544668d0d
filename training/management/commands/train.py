"""`manage.py train`: trains on a file or on an agent's rewarded decisions, into a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from decisions.models import Agent
from training.engine.spec.methods import HELP, TRAINING, RowKind
from training.errors import EmptyDataset, EngineFailed
from training.local.options import HELD_OUT_TASKS, MODEL, TASKS, as_training, choose_output, complete_options
from training.local.plans import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    UnusableRun,
    check_training,
    make_plan,
)
from training.local.runs import Interrupted, read_rows, rows_of_agent, train_here
from training.local.task_rows import rows_of_environment
from training.management.agents import NoSingleAgent, find_agent
from training.models import LEDGER_KINDS
from training.runs.defaults.presets import HELP as PRESET_HELP
from training.runs.defaults.presets import PRESETS
from training.runs.estimates.needs import Estimate
from training.runs.shown.monitoring import price_of
from workspaces.access.actors import system
from workspaces.commands import UncheckedCommand
from workspaces.templatetags.show import duration, size

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130


class Command(UncheckedCommand):
    help = (
        "Trains a model on rows of a file, such as export_training_data wrote, or on an agent's rewarded decisions,"
        " into a folder. It needs no running instance and registers no version (manage.py runs start does). First it"
        " shows what it chose (method, 4 bits) and what the run will need. Exit codes: 0 trained, 1 the"
        " training failed, or no decision makes a row, 2 the input is invalid or does not fit this machine (every fault"
        " is named), 130 interrupted: the same command resumes from the checkpoint."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="YAML file with these options, and `settings` for --set; the command line takes precedence",
        )
        rows = parser.add_mutually_exclusive_group()
        rows.add_argument("--agent-type", help="a kind (FILER, LIBRARIAN, …) or the slug of one agent")
        rows.add_argument(
            "--environment",
            help="name of an environment that is installed, such as office: the model acts on its tasks, and is"
            " measured on held-out ones before and after",
        )
        parser.add_argument("--tasks", type=int, help=f"of --environment: tasks to learn from (default: {TASKS})")
        parser.add_argument(
            "--held-out", type=int, help=f"of --environment: tasks to measure on (default: {HELD_OUT_TASKS})"
        )
        rows.add_argument(
            "--data", type=Path, help="JSON lines: labelled, logged or exported rows, preference pairs, or tasks"
        )
        parser.add_argument(
            "--output",
            type=Path,
            help="folder for the weights; empty or new (default for the notes app's agents: models/ocd-KIND-v1)",
        )
        parser.add_argument("--model", help=f"hub id, folder, tiny, or words (default: {MODEL}; of classifier: words)")
        parser.add_argument(
            "--method",
            choices=list(TRAINING),
            help=f"by default ppo if the rows suffice for it, else what fits them. {HELP}",
        )
        parser.add_argument(
            "--rows",
            choices=[kind.value for kind in LEDGER_KINDS],
            help="with --agent-type: which rows to make; by default those that fit its actions. logged: choices,"
            " rankings, and a LIBRARIAN's findings as scored pairs; text: what was written; labelled and preferences:"
            " what people said",
        )
        parser.add_argument("--preset", choices=list(PRESETS), help=f"named settings. {PRESET_HELP}")
        parser.add_argument("--epochs", type=int, help=f"passes over the rows (default: {EPOCHS})")
        parser.add_argument("--batch-size", type=int, help=f"rows per update (default: {BATCH_SIZE})")
        parser.add_argument("--learning-rate", type=float, help=f"learning rate (default: {LEARNING_RATE})")
        parser.add_argument(
            "--no-quantization",
            action="store_const",
            const=True,
            help="keep the base unquantised; by default it has 4 bits under an adapter, with CUDA and bitsandbytes",
        )
        parser.add_argument(
            "--set", dest="changes", metavar="JSON", help="fields of the spec as JSON; they take precedence"
        )
        parser.add_argument("--workspace", help="slug; optional if there is only one workspace")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            options = complete_options(options)
            agent = self._find_agent(options) if options["agent_type"] is not None else None
            asked = as_training(options, agent.kind if agent is not None else "")
            check_training(asked)
            if agent is not None:
                kind = RowKind(options["rows"]) if options["rows"] else None
                rows = rows_of_agent(by=system(agent.workspace), agent=agent, kind=kind, method=asked.method)
            elif options["environment"] is not None:
                rows = rows_of_environment(options["environment"], options["tasks"], options["held_out"])
            else:
                rows = read_rows(options["data"])
            output = choose_output(options["output"], asked.agent_kind or rows.agent_kind)
            plan = make_plan(asked, rows, output)
            for line in filter(None, [*plan.notes, plan.unchecked]):
                self._say(line)
            if plan.estimate is not None:
                self._say(_tell_estimate(plan.estimate))
            result = train_here(asked, plan, output, self._say)
        except UnusableRun as error:
            self.refuse("\n".join(error.faults))
        except (EngineFailed, EmptyDataset) as error:
            self.stderr.write(str(error))
            sys.exit(EXIT_FAILED)
        except Interrupted as error:
            self.stderr.write(str(error))
            sys.exit(EXIT_INTERRUPTED)
        made = output / str(result.output)
        plain = {
            "output": str(made),
            "method": result.method,
            "chosen": plan.notes,
            "estimate": plan.estimate.as_plain() if plan.estimate is not None else None,
            "rows": result.rows,
            "steps": result.steps,
            "seconds": result.seconds,
            "cost": price_of(result.seconds),
            "weights_sha256": result.weights_sha256,
            "metrics": result.metrics,
            "scores": {which: score.model_dump() for which, score in result.scores.items()},
            "warnings": result.warnings,
        }
        says = f"{made}: {result.method} on {result.rows} rows in {result.seconds:.0f} s{_cost(result.seconds)}"
        if result.scores:
            before, after = (result.scores[which].accuracy for which in ("base", "trained"))
            says += f"; solved {before:.0%} of {len(rows.held_out)} held-out tasks before, {after:.0%} after"
        self.stdout.write(json.dumps(plain) if options["json"] else says)

    def _say(self, text: str) -> None:
        self.stderr.write(text, str)  # progress is no error, and not red

    def _find_agent(self, options: dict[str, Any]) -> Agent:
        """Raises UnusableRun."""
        wanted = options["agent_type"]
        agents = Agent.objects.for_workspace(self.find_workspace(options["workspace"])).select_related("workspace")
        try:
            return find_agent(agents, wanted)
        except NoSingleAgent as error:
            raise UnusableRun([str(error)]) from error


def _tell_estimate(estimate: Estimate) -> str:
    needs = f"{size(estimate.memory_bytes)} memory, {size(estimate.disk_bytes)} disk"
    return f"needs: about {duration(estimate.seconds)} (rough, {estimate.device}){_cost(estimate.seconds)}, {needs}"


def _cost(seconds: float) -> str:
    price = price_of(seconds)
    return f", cost about {price:.2f}" if price is not None else ""
