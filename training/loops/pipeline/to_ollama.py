"""What would keep a pipeline from ending in an Ollama server, found before it starts."""

from __future__ import annotations

from models_registry.models import ModelVersion
from training.engine.machine.facts import this_machine
from training.engine.spec.export_formats import QUANTISATIONS, Format, find_missing_packages, recommend_quantisation
from training.exports import ollama
from training.exports.plans import find_obstacles
from workspaces.errors import FieldFault, InvalidInput


def choose_quantisation() -> str:
    """For this machine's memory."""
    return recommend_quantisation(this_machine().memory_bytes)


def find_target_faults(base: ModelVersion | None, *, quantisation: str, host: str) -> list[FieldFault]:
    """Why a version that is trained from `base` (None: from a model outside the registry) could not end in the Ollama
    server there: packages, a shape that GGUF does not take, disk, or no server that answers."""
    faults = []
    if quantisation not in QUANTISATIONS:
        faults.append(FieldFault("quantisation", f"{quantisation!r} is unknown", ", ".join(QUANTISATIONS)))
    if base is not None and base.artifact is not None:
        reasons = [fault.reason for fault in find_obstacles(base, Format.GGUF)]
    else:
        reasons = find_missing_packages(Format.GGUF)
    try:
        ollama.check_server(host)
    except InvalidInput as error:
        reasons.append(error.message.removesuffix("."))
    return [
        *faults,
        *(FieldFault("deploy_ollama", reason, "an Ollama server and the extra export") for reason in reasons),
    ]
