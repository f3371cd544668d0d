"""Which type each tensor of a GGUF file gets under each quantisation. Tables and rules, without torch.

What is here are facts about llama.cpp's `llama_model_quantize` (MIT licence) for dense models and no importance
matrix, so that a file of ours has the types that its own tool gives. `write_gguf` follows them; the job and the page
read the names and the recommendation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

QUANTISATIONS = ("Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")
"""From small to large."""
FILE_TYPES: Mapping[str, int] = {
    "F32": 0, "F16": 1, "Q8_0": 7, "Q2_K": 10, "Q3_K_M": 12, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18,
}  # fmt: skip
"""What `general.file_type` says."""
BLOCKS: Mapping[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
}  # fmt: skip
"""Type → weights in a block, bytes of a block. A row holds whole blocks."""
FALLBACKS: Mapping[str, str] = {
    "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
    "Q4_0": "F16", "Q5_0": "F16", "Q5_1": "F16", "Q8_0": "F16",
}  # fmt: skip
"""What a tensor gets whose rows aren't whole blocks of the type it should have."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the rules ask of a model. `tied`: the embeddings are the output layer as well."""

    layers: int
    heads: int
    key_value_heads: int
    tied: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """The type that a tensor gets, and the one that the recipe has for it. `reason` says why they differ."""

    type: str
    wanted: str
    reason: str | None = None


Rule = Callable[[int, Layout], bool]


def _more_bits(layer: int, layout: Layout) -> bool:
    """The first and the last eighth of the layers, and every third between them."""
    eighth = layout.layers // 8
    return layer < eighth or layer >= 7 * layout.layers // 8 or (layer - eighth) % 3 == 2


def _first_two(layer: int, _: Layout) -> bool:
    return layer < 2


def _first_sixteenth(layer: int, layout: Layout) -> bool:
    return layer < layout.layers // 16


def _heads_share(_: int, layout: Layout) -> bool:
    """Four query heads or more share a value head: the tensor is small, and matters more."""
    return layout.heads // layout.key_value_heads >= 4


def _never(_: int, __: Layout) -> bool:
    return False


USUAL: Mapping[str, str] = {
    "F32": "F32", "F16": "F16", "Q8_0": "Q8_0", "Q2_K": "Q2_K", "Q3_K_M": "Q3_K", "Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K",
    "Q6_K": "Q6_K",
}  # fmt: skip
"""Quantisation → the type of what no row of MIXES names."""
MIXES: Mapping[tuple[str, str], tuple[str, str, Rule]] = {
    ("Q2_K", "attn_v"): ("Q3_K", "Q4_K", _heads_share),
    ("Q2_K", "attn_output"): ("Q3_K", "Q3_K", _never),
    ("Q2_K", "ffn_down"): ("Q3_K", "Q3_K", _never),
    ("Q3_K_M", "attn_v"): ("Q4_K", "Q5_K", _first_two),
    ("Q3_K_M", "attn_output"): ("Q4_K", "Q4_K", _never),
    ("Q3_K_M", "ffn_down"): ("Q4_K", "Q5_K", _first_sixteenth),
    ("Q4_K_M", "attn_v"): ("Q4_K", "Q6_K", _more_bits),
    ("Q4_K_M", "ffn_down"): ("Q4_K", "Q6_K", _more_bits),
    ("Q5_K_M", "attn_v"): ("Q5_K", "Q6_K", _more_bits),
    ("Q5_K_M", "ffn_down"): ("Q5_K", "Q6_K", _more_bits),
}
"""(quantisation, part) → the type, and the better one of the layers that the rule picks."""
LAYERS_OF_70B = 80
"""Models with this many layers and shared value heads count as 70B, whose value tensors get at least Q5_K."""


def row_bytes(kind: str, columns: int) -> int:
    """Bytes of a row of so many weights, which are whole blocks of this type."""
    block, size = BLOCKS[kind]
    return columns // block * size


def choose(name: str, shape: tuple[int, ...], quantisation: str, layout: Layout) -> Chosen:
    """The type of the tensor with this name in GGUF; `shape` ends in the length of a row.

    Norms, biases and other vectors stay in F32. Raises KeyError for a quantisation that has no file type.
    """
    if len(shape) < 2 or not name.endswith("weight") or name.endswith("_norm.weight"):
        return Chosen("F32", "F32")
    usual = USUAL[quantisation]
    if usual in ("F32", "F16"):
        return Chosen(usual, usual)
    if name == "output.weight" or (layout.tied and name == "token_embd.weight"):
        # The output layer is not rounded further than this, whatever the rest is.
        wanted = "Q8_0" if usual == "Q8_0" else "Q6_K"
    else:
        wanted = _in_layer(name, quantisation, layout)
    return _fitting(wanted, shape[-1])


def _in_layer(name: str, quantisation: str, layout: Layout) -> str:
    usual = USUAL[quantisation]
    found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if found is None:
        return usual
    layer, part = int(found[1]), found[2]
    kind, better, rule = MIXES.get((quantisation, part), (usual, usual, _never))
    kind = better if rule(layer, layout) else kind
    of_70b = layout.layers == LAYERS_OF_70B and layout.heads != layout.key_value_heads
    return "Q5_K" if of_70b and part == "attn_v" and kind in ("Q3_K", "Q4_K") else kind


def _fitting(wanted: str, columns: int) -> Chosen:
    """The wanted type, or the first of its fallbacks whose blocks fill a row."""
    kind = wanted
    while columns % BLOCKS[kind][0]:
        kind = FALLBACKS[kind]
    if kind == wanted:
        return Chosen(wanted, wanted)
    return Chosen(
        kind, wanted, f"rows of {columns} weights are not whole blocks of {BLOCKS[wanted][0]}: {kind}, not {wanted}"
    )
