"""What an export is to be: its options checked, and everything that would keep it from being made, found beforehand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
from django.conf import settings
from django.template.defaultfilters import filesizeformat

from decisions.agents.current import find_current_version
from models_registry.artifacts.opening import artifact_path, find_cache
from models_registry.models import ModelVersion
from training.engine.machine.facts import this_machine
from training.engine.spec.export_formats import (
    CLASSIFIERS,
    QUANTISATIONS,
    Format,
    find_kind_faults,
    find_missing_packages,
    find_shape_faults,
    recommend_quantisation,
)
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.methods import RowKind
from training.engine.spec.run_spec import HUB_ID
from training.exports.hosting import STANDARD
from training.exports.ollama import check_server, named_host
from training.models import DatasetSnapshot, TrainingRun
from training.models.export import ExportFormat
from workspaces.errors import FieldFault, InvalidInput

NO_OLLAMA = "OLLAMA_HOST is not set, so no Ollama server is known"
COPIES = 4
"""Of the weights: an export in float32 may be twice as large as they are, once in its folder and once in the store."""
COMPARED = (RowKind.LABELLED, RowKind.LOGGED, RowKind.TEXT)
"""Kinds of held-out rows that both models can be asked; tasks need an environment."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows that a version was measured on, and how much of a prompt it read then; without `dataset` there are none."""

    dataset: DatasetSnapshot | None
    max_prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to export a version, for a form. `value` names it there; `why_not`: what is missing, "" where nothing."""

    value: str
    title: str
    recommended: bool = False
    why_not: str = ""


def make_options(version: ModelVersion, format: str, **options: Any) -> dict[str, Any]:
    """What tells this export from others of the version in this format. Raises InvalidInput with everything that keeps
    it from being made here and now; of Ollama also that no server answers, which is `host`, or OLLAMA_HOST without."""
    if format != ExportFormat.OLLAMA:
        if options.pop("profile", None):
            raise _invalid([FieldFault("profile", f"{format} is not hosted; leave it out", "only for ollama")])
        return make_plan(version, format, **options).options
    host, profile = options.pop("host", "") or named_host(), options.pop("profile", None) or STANDARD
    if not host:
        raise _invalid([FieldFault("format", NO_OLLAMA, "OLLAMA_HOST, or gguf")])
    plan = make_plan(version, Format.GGUF, **options)
    check_server(host)
    return {**plan.options, "profile": profile, "host": host}


def make_plan(version: ModelVersion, format: str, **options: Any) -> ExportPlan:
    """Raises InvalidInput with everything that keeps this version from being exported so, here and now."""
    try:
        plan = ExportPlan.model_validate(plain_plan(version, format, options))
    except pydantic.ValidationError as error:
        raise _invalid([fault for detail in error.errors() for fault in _faults(detail)]) from error
    faults = list(find_obstacles(version, plan.format))
    if version.is_classifier and plan.cache:
        faults.append(FieldFault("cache", "a classifier reads whole texts; leave it out", "false"))
    if faults:
        raise _invalid(faults)
    return plan


def plain_plan(version: ModelVersion, format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """As the engine's spec has it; options that are not set are left out."""
    given = {name: value for name, value in options.items() if value not in (None, False, "")}
    return {"format": format, **given, "base_name": find_base_name(version)}


def find_obstacles(version: ModelVersion, format: Format) -> Iterator[FieldFault]:
    """What is missing for this version in this format: a format for its kind, an adapter, packages, a known shape, room
    on the disk."""
    if reasons := find_kind_faults(format, is_classifier=version.is_classifier):
        yield FieldFault(
            "format", f"{version}: {reasons[0]}", " or ".join(CLASSIFIERS) if version.is_classifier else "merged"
        )
        return
    if format is Format.LORA and version.base is None:
        yield FieldFault("format", f"{version} has no adapter: its weights are whole", "merged")
    for reason in find_missing_packages(format):
        yield FieldFault("format", reason, "merged, or the packages")
    whole = version.base or version
    for reason in [] if version.is_classifier else find_shape_faults(format, _model_type(whole)):
        yield FieldFault("format", reason, "merged")
    if format is Format.MERGED and version.base is None:
        return  # its own files, which are there
    needed = COPIES * (version if format is Format.LORA else whole).stored.size_bytes
    free = shutil.disk_usage(_existing(settings.RUNS)).free
    if needed > free:
        room = f"about {_size(needed)} of disk are needed, but only {_size(free)} are free"
        yield FieldFault("format", room, "more free disk space (manage.py disk_usage shows what uses it)")


def list_choices(version: ModelVersion) -> list[Choice]:
    """Every format with its options, in the order of a form; none of a remote model, or no policy."""
    if version.artifact is None or not version.is_policy:
        return []
    recommended = recommend_quantisation(this_machine().memory_bytes)

    def why_not(format: Format) -> str:
        return "; ".join(fault.reason for fault in find_obstacles(version, format))

    if version.is_classifier:
        return [Choice(str(format), ExportFormat(format).label, why_not=why_not(format)) for format in CLASSIFIERS]
    onnx, gguf = why_not(Format.ONNX), why_not(Format.GGUF)
    lora = [Choice("lora", ExportFormat.LORA.label, why_not=why_not(Format.LORA))] if version.base else []
    into = [Choice(f"ollama:{recommended}", f"A model at the Ollama server, {recommended}", why_not=gguf)]
    return [
        Choice("merged", ExportFormat.MERGED.label, why_not=why_not(Format.MERGED)),
        *lora,
        Choice("onnx", ExportFormat.ONNX.label, why_not=onnx),
        Choice("onnx:cache", f"{ExportFormat.ONNX.label} with a cache", why_not=onnx),
        *(
            Choice(f"gguf:{name}", f"{ExportFormat.GGUF.label}, {name}", name == recommended, gguf)
            for name in QUANTISATIONS
        ),
        *(into if named_host() else []),
    ]


def read_choice(value: str) -> tuple[str, dict[str, Any]]:
    """The format and options of `Choice.value`."""
    format, _, option = value.partition(":")
    if format in (ExportFormat.GGUF, ExportFormat.OLLAMA):
        return format, {"quantisation": option}
    return format, {"cache": option == "cache"}


def find_heldout(version: ModelVersion) -> HeldOut:
    """Rows that neither the version nor the run that made it learnt from, or those of the nearest version that it came
    from. None of which rows were erased, or whose files are gone."""
    agent = version.registered_model.agents.order_by("id").first()
    setup = find_current_version(agent) if agent is not None else None
    tokens = setup.max_prompt_tokens if setup is not None else None
    one: ModelVersion | None = version
    while one is not None:
        run = TrainingRun.objects.filter(produced_version=one).select_related("heldout__artifact").first()
        rows = run.heldout if run is not None else None
        if run is not None and rows is not None and _can_be_asked(rows):
            return HeldOut(rows, run.spec.get("max_prompt_tokens", tokens))
        one = one.parent or one.base
    return HeldOut(None, tokens)


def _can_be_asked(rows: DatasetSnapshot) -> bool:
    return rows.row_kind in COMPARED and rows.marked_at is None and rows.artifact.removed_at is None


def find_base_name(version: ModelVersion) -> str:
    """The hub's id of the weights under an adapter, where they are the hub's: what peft finds them by; else ""."""
    base, name = version.base, version.base_model
    if base is None or "/" not in name or not HUB_ID.fullmatch(name):
        return ""
    return "" if TrainingRun.objects.filter(produced_version=base).exists() else name


def _model_type(version: ModelVersion) -> str:
    if find_cache() is not None:  # at a server: a page should not fetch weights, and the engine looks again
        return ""
    config = artifact_path(version.stored.digest) / "config.json"
    return str(json.loads(config.read_text(encoding="utf-8")).get("model_type", "")) if config.is_file() else ""


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)


def _faults(detail: Any) -> Iterator[FieldFault]:
    """Of one of pydantic's errors; the plan's own check says several, one a line."""
    where = ".".join(map(str, detail["loc"]))
    said = str(detail["msg"]).removeprefix("Value error, ")
    for line in said.splitlines():
        field, _, reason = line.partition(": ") if not where else (where, "", line)
        yield FieldFault(field, reason, _EXPECTED.get(field, ""))


_EXPECTED = {
    "format": ", ".join(ExportFormat.values),
    "quantisation": f"for gguf one of {', '.join(QUANTISATIONS)}, else nothing",
    "cache": "true only for onnx",
}


def _invalid(faults: list[FieldFault]) -> InvalidInput:
    return InvalidInput("The version cannot be exported.", faults=faults)


def _size(count: int) -> str:
    return filesizeformat(count).replace("\xa0", " ")
