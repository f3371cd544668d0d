"""`manage.py export_model`: writes a model in another format into a folder, and compares both, outside the registry."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pydantic
from django.core.management.base import CommandParser
from rich.console import Console
from rich.table import Table

from decisions.models import Agent
from decisions.queries.agents import find_agent_version
from models_registry.artifacts.opening import artifact_path
from models_registry.versions.references import is_reference
from training.engine.machine.facts import this_machine
from training.engine.spec.export_formats import (
    DEFAULT_QUANTISATION,
    QUANTISATIONS,
    Format,
    find_kind_faults,
    recommend_quantisation,
)
from training.engine.spec.export_spec import ExportPlan, ExportReport
from training.engine.spec.result import RunResult
from training.engine.spec.run_spec import HUB_ID
from training.exports.hosting import HELP, PROFILES, STANDARD, HostingProfile
from training.exports.modelfile import write_beside_gguf
from training.exports.ollama import find_parameters
from training.exports.plans import HeldOut, find_base_name, find_heldout
from training.exports.services import REPORT
from training.management.commands.evaluate import Model, find_model
from training.models.export import ExportFormat
from training.rows.parts import ROWS_FILE
from training.runs import launcher
from workspaces.commands import UncheckedCommand
from workspaces.errors import InvalidInput

OLLAMA = ExportFormat.OLLAMA.value
EXIT_FAILED, EXIT_BAD_INPUT, EXIT_REFUSED = 1, 2, 3


class Command(UncheckedCommand):
    help = (
        "Writes a model as LoRA, merged weights, ONNX or GGUF, or a classifier as ONNX or for scikit-learn, into a "
        "folder, loads it in that format's own runtime and compares it with the model it was made from. ollama: a GGUF "
        "with the Modelfile that 'ollama create' reads; manage.py ollama deploy puts a version's export into a server. "
        "Exit codes: 0 written, 1 the engine failed, 2 "
        "an argument is invalid or something is missing (every fault is named), 3 it differs too much, or Ollama "
        "cannot use it: only the report is written."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="a version such as filer:2, or a folder of weights or LoRA")
        parser.add_argument("--output", required=True, type=Path, help="a new or empty folder")
        parser.add_argument(
            "--base-model",
            default="",
            help="base of a LoRA folder: a folder or hub id; by default the one that it names",
        )
        parser.add_argument("--merge", action="store_true", help="the same as --format merged, the default")
        parser.add_argument("--format", choices=(*Format, OLLAMA), help="default: merged")
        parser.add_argument(
            "--quantization",
            choices=QUANTISATIONS,
            help=f"for gguf and ollama, by default {DEFAULT_QUANTISATION}; for this machine's memory "
            f"{recommend_quantisation(this_machine().memory_bytes)} is recommended",
        )
        parser.add_argument("--profile", choices=PROFILES, help=f"for ollama, by default {STANDARD}. {HELP}")
        parser.add_argument(
            "--cache", action="store_true", help="for onnx: the graph takes keys and values of earlier tokens"
        )
        parser.add_argument("--workspace", help="slug; optional if only one version has this name")
        parser.add_argument("--json", action="store_true", help="print the report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        faults: list[str] = []
        output: Path = options["output"]
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            faults.append(f"--output: {output} is there already, and not an empty folder")
        format = _find_format(options, faults)
        model = find_model(options["model"], options["base_model"], self._find_agent(options, faults), faults)
        plan = None
        if model is not None:
            plan = _make_plan(model, format or Format.MERGED, options, faults)
        if options["profile"] and options["format"] != OLLAMA:
            faults.append("--profile: is only for --format ollama; leave it out")
        if faults or model is None or plan is None:
            self.stderr.write("\n".join(faults))
            sys.exit(EXIT_BAD_INPUT)
        profile = PROFILES[options["profile"] or STANDARD] if options["format"] == OLLAMA else None
        report = self._export(model, plan, output, profile)
        self.stdout.write(report.model_dump_json()) if options["json"] else _print(report, output)
        if report.parity.refusals:
            self.stderr.write("Refused: " + "; ".join(report.parity.refusals))
            sys.exit(EXIT_REFUSED)

    def _find_agent(self, options: dict[str, Any], faults: list[str]) -> Agent | None:
        """One whose workspace has the named version."""
        given: str = options["model"]
        if Path(given).is_dir() or not is_reference(given):
            return None
        agents = Agent.objects.select_related("workspace")
        if options["workspace"]:
            agents = agents.filter(workspace__slug=options["workspace"])
        found = {agent.workspace_id: agent for agent in agents}
        if len(found) > 1:
            faults.append("--workspace: there are several workspaces; name one")
        return next(iter(found.values()), None)

    def _export(self, model: Model, plan: ExportPlan, output: Path, profile: HostingProfile | None) -> ExportReport:
        """With a hosting profile it is for Ollama."""
        heldout = find_heldout(model.version) if model.version is not None else HeldOut(None, None)
        with tempfile.TemporaryDirectory(prefix="reckoner-export-", dir=_existing(output.absolute().parent)) as place:
            folder = Path(place)
            spec: dict[str, Any] = {
                "run_id": "export",
                "method": "export",
                "base": model.source,
                "export": plan.model_dump(mode="json"),
            }
            if heldout.max_prompt_tokens is not None:
                spec["max_prompt_tokens"] = heldout.max_prompt_tokens
            if heldout.dataset is not None:
                shutil.copyfile(artifact_path(heldout.dataset.artifact.digest) / ROWS_FILE, folder / "heldout.jsonl")
                spec["data"] = {"heldout": "heldout.jsonl", "heldout_rows": heldout.dataset.row_kind}
            (folder / "spec.json").write_text(json.dumps(spec))
            ended = launcher.run_once(folder)
            if ended.returncode != 0:
                said = ended.stderr[-launcher.LAST_WORDS :].strip()
                self.stderr.write(said or f"the engine ended with {ended.returncode}")
                sys.exit(EXIT_BAD_INPUT if launcher.BAD_SPEC in ended.stderr else EXIT_FAILED)
            attempt = folder / "attempts" / "1"
            report = RunResult.model_validate_json((attempt / "result.json").read_text()).export
            assert report is not None
            written = attempt / "export"
            refusals = report.parity.refusals
            if profile is not None and not refusals:
                try:
                    _write_for_ollama(model, report, profile, written)
                except InvalidInput as error:
                    refusals.append(error.message)
            if refusals:
                shutil.rmtree(written)
                written.mkdir()
            (written / REPORT).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
            output.parent.mkdir(parents=True, exist_ok=True)
            if output.exists():
                output.rmdir()
            written.rename(output)  # whole, or not there
        return report


def _write_for_ollama(model: Model, report: ExportReport, profile: HostingProfile, folder: Path) -> None:
    """What `ollama create NAME -f Modelfile` reads beside the GGUF. Raises InvalidInput where Ollama cannot use it."""
    asks = find_agent_version(model.version.registered_model) if model.version is not None else None
    find_parameters(model.name, report.details, asks, profile)
    assert report.plan.quantisation is not None
    for name, text in write_beside_gguf(asks, report.plan.quantisation, report.details, profile).items():
        (folder / name).write_text(text, encoding="utf-8")


def _find_format(options: dict[str, Any], faults: list[str]) -> Format | None:
    given = options["format"]
    if options["merge"] and given not in (None, Format.MERGED):
        faults.append(f"--merge: merges weights, and --format {given} is another format; leave one out")
    if options["merge"]:
        return Format.MERGED
    return Format.GGUF if given == OLLAMA else Format(given) if given else None


def _make_plan(model: Model, format: Format, options: dict[str, Any], faults: list[str]) -> ExportPlan | None:
    if model.version is not None and (reasons := find_kind_faults(format, is_classifier=model.version.is_classifier)):
        faults.append(f"--format: {model.name}: {reasons[0]}")
        return None
    if format is Format.LORA and model.adapter is None:
        faults.append(f"--format: {model.name} has no adapter, its weights are whole; give merged")
    try:
        return ExportPlan(
            format=format,
            cache=options["cache"],
            quantisation=options["quantization"],
            base_name=_base_name(model) if format is Format.LORA else "",
        )
    except pydantic.ValidationError as error:
        said = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        faults += [f"--{line.replace('quantisation:', 'quantization:')}" for line in said.splitlines()]
        return None


def _base_name(model: Model) -> str:
    """What peft finds the base by: a hub id. A folder of this machine means nothing elsewhere."""
    if model.version is not None:
        return find_base_name(model.version)
    return model.path if not model.path.startswith("/") and HUB_ID.fullmatch(model.path) else ""


def _existing(folder: Path) -> Path:
    return folder if folder.is_dir() else _existing(folder.parent)


def _print(report: ExportReport, output: Path) -> None:
    parity, console = report.parity, Console()
    table = Table(show_header=False, box=None)
    for name, value in (
        ("Folder", str(output)),
        ("Size", f"{report.bytes:,} bytes in {len(report.files)} files"),
        ("Runtime", parity.runtime),
        ("Compared on", f"{parity.rows} {'held-out rows' if parity.prompts == 'held_out' else 'built-in texts'}"),
        ("Same decisions", f"{parity.equal_decisions:.4f} of {parity.decisions}"),
        ("Required", "no bound" if parity.bound is None else f"at least {parity.bound:g}"),
        ("Same next token", f"{parity.top1:.4f} of {parity.positions}"),
        ("Divergence", "–" if parity.kl is None else f"{parity.kl:.3g} nats, at most {parity.kl_largest:.3g}"),
        ("Other tokens", f"{parity.tokens_differ_count} of {parity.texts} hard texts"),
        ("Time", f"{report.seconds_written:.1f} s to write, {report.seconds_compared:.1f} s to compare"),
    ):
        table.add_row(name, value)
    console.print(table)
