"""Which matrices of a model an adapter is on, found in the model itself: by its layers, not by a table.

As a program, `python -m training.engine.models.targets FOLDER`, it builds the model of the folder's config.json without
weights, on torch's meta device, and prints what an adapter can be on as JSON: `error`, or "" and `targets`, each with
why it cannot be adapted. Checks before a run ask it of architectures that `training.engine.spec.architectures` lacks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from training.engine.spec.architectures import EXPERTS, FUSED, NO_ATTENTION, TARGETS, Matrices, Targets, say_targets
from training.engine.spec.refused import Refused

QUERIES = ("q_proj", "q_lin", "query", "wq", "q")
VALUES = ("v_proj", "v_lin", "value", "wv", "v")
READ_PAST_THE_LAYER = {"mamba": ("in_proj",), "falcon_mamba": ("in_proj",), "mamba2": ("in_proj",)}
"""What alone can be adapted where a GPU's kernels read the other weights without calling their layers."""


class NoSuchTargets(Refused):
    """An adapter cannot be on these matrices of this model; the message says what it can be on."""


def find_matrices(model: nn.Module) -> Matrices:
    """Ends of names as long as it takes to tell the matrices apart. Works on the meta device as well."""
    linear = dict(_linear_layers(model))
    kind = str(model.config.model_type)  # type: ignore[union-attr]
    attention = [name for name in linear if _is_attention(model, name)]
    queries = [name for name in attention if name.rpartition(".")[2] in QUERIES]
    values = [name for name in attention if name.rpartition(".")[2] in VALUES]
    why_not: dict[Targets, str] = {}
    if not attention:
        why_not = {"attention": NO_ATTENTION, "query-value": NO_ATTENTION}
    elif not (queries and values):
        why_not["query-value"] = FUSED
    every: tuple[str, ...] | None = READ_PAST_THE_LAYER.get(kind) or _ends(list(linear), linear)
    if any(parameter.ndim == 3 and "expert" in name for name, parameter in model.named_parameters()):
        every, why_not["all-linear"] = None, EXPERTS
    return Matrices(
        every,
        _ends(attention, linear) if attention else None,
        _ends([*queries, *values], linear) if queries and values else None,
        why_not or None,
    )


def rows_and_columns(layer: nn.Module) -> tuple[int, int]:
    """Of the matrix that an input is multiplied by: outputs, inputs. GPT-2's layers hold it transposed."""
    if isinstance(layer, Conv1D):
        return int(layer.weight.shape[1]), int(layer.weight.shape[0])
    assert isinstance(layer, nn.Linear)
    return layer.out_features, layer.in_features


def choose_targets(model: nn.Module, targets: Targets) -> list[str]:
    """What peft is given. Raises NoSuchTargets."""
    matrices = find_matrices(model)
    chosen = matrices.of(targets)
    if chosen is None:
        why, instead = matrices.find_fault(targets), say_targets(matrices.usable())
        raise NoSuchTargets(f"lora.targets: {targets} cannot be adapted: {why}; right would be {instead}")
    return list(chosen)


def _linear_layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Of the blocks: neither the output layer nor what stands before the first block."""
    blocks = [f"{name}." for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D) and any(map(name.startswith, blocks)):
            yield name, module


def _is_attention(model: nn.Module, name: str) -> bool:
    return "attention" in type(model.get_submodule(name.rpartition(".")[0])).__name__.lower()


def _ends(chosen: list[str], every: dict[str, nn.Module]) -> tuple[str, ...]:
    """`o_proj`; with the name of what it lies in where layers of the same name lie in something else, too."""
    lasts = [_last_two(name) for name in every]
    shared = {last for _, last in lasts if len({home for home, other in lasts if other == last}) > 1}
    parts = [_last_two(name) for name in chosen]
    return tuple(dict.fromkeys(f"{home}.{last}" if last in shared else last for home, last in parts))


def _last_two(name: str) -> tuple[str, str]:
    """What the layer lies in, "" where that is a block itself, and its own name."""
    home, last = name.split(".")[-2:]
    return "" if home.isdecimal() else home, last


def read_matrices(folder: str) -> Matrices:
    """Of the model that config.json in the folder describes, without weights. Raises ValueError."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, trust_remote_code=False
        )
    return find_matrices(model)


def main(folder: str) -> dict[str, object]:
    try:
        matrices = read_matrices(folder)
    except (ValueError, OSError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        # Of a config that no causal language model has, libraries say so in many ways.
        return {"error": f"no causal language model can be made of its config.json: {str(error).splitlines()[0][:300]}"}
    return {"error": "", "targets": {targets: matrices.find_fault(targets) for targets in TARGETS}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m training.engine.models.targets",
        description="Prints which names of targets of an adapter fit a base, as JSON.",
        epilog="Exit codes: 0 printed, 2 no model can be made of the folder's config.json, and `error` says why.",
    )
    parser.add_argument("folder", help="folder with the base's config.json")
    told = main(parser.parse_args().folder)
    print(json.dumps(told))  # noqa: T201 - what was asked for
    sys.exit(2 if told["error"] else 0)
