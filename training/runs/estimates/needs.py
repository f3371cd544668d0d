"""What a run will need, before it starts: memory, disk and time. PURE.

Sizes of a base come from its config and the headers of its safetensors, so nothing is loaded. Memory is an upper bound
of rows that are as long as the spec lets them be; time follows the rate of earlier runs, or one that is said to be
rough. `training.runs.estimates.capacity` reads the bases and the machine, and refuses what cannot fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.engine.spec.architectures import ARCHITECTURES, QUERY_VALUE, SEPARATE, Matrices, holds_in_float16
from training.engine.spec.methods import RowKind
from training.engine.spec.run_spec import CHECKPOINTS_KEPT, RunSpec, TinyShape
from training.engine.spec.settings import FEWEST_OTHERS, Lora

TOKENS_PER_WORD = 1.6
TEMPLATE_TOKENS = 16
TEXT_SHARE = 1 / 8
"""Of an update's rows, those that are read as text as well (training.engine.updates.answers)."""
MOMENTS = 2
"""Of AdamW, for each trained weight; with the weight itself and its gradient, 16 bytes in float32."""
PROCESS_BYTES = 800 * 10**6
"""Of an engine before it has a model: Python, torch and transformers."""
STEPS_UNTOLD = 10
"""Actions of an episode in an environment that is not known here."""
START_SECONDS = 5.0
LOAD_BYTES_A_SECOND = 5 * 10**8
ROUGH_FLOPS = {"cpu": 2e10, "cuda": 4e13, "rocm": 4e13, "mps": 3e12}
"""Floating-point operations a second that small batches reach, of the CPU for each core. Rough by a factor of three."""
IN_A_BLOCK = re.compile(r"\.\d+\.")
"""Of a tensor's name: the number of its block."""
SIZE_IN_NAME = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`parameters` in all, of them `body` in the layers: tables of tokens cost memory and hardly time. `adapted`,
    `attention` and `query_value`: rows and columns of the layers' matrices together, of all, of attention's, and of its
    queries' and values', which LoRA adapts.

    `exact`: read from the weights; else guessed from a name that tells the size. `float16`: whether that holds its
    activations, on a GPU without bfloat16.
    """

    parameters: int
    body: int
    hidden: int
    layers: int
    heads: int
    vocabulary: int
    adapted: int
    attention: int
    query_value: int
    exact: bool = True
    float16: bool = True


@dataclass(frozen=True, slots=True)
class Rate:
    """Floating-point operations a second; of so many earlier runs, 0 where it is rough."""

    flops: float
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, seconds, and what they come from. `parts` of the memory by name, `work` in floating-point operations."""

    parameters: int
    trained: int
    exact: bool
    device: str
    memory_bytes: int
    parts: Mapping[str, int]
    disk_bytes: int
    work: float
    seconds: float
    measured_runs: int

    def as_plain(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "trained_parameters": self.trained,
            "exact": self.exact,
            "device": self.device,
            "memory_bytes": self.memory_bytes,
            "parts": dict(self.parts),
            "disk_bytes": self.disk_bytes,
            "work": self.work,
            "seconds": round(self.seconds, 1),
            "measured_runs": self.measured_runs,
        }


def read_shape(folder: Path) -> ModelShape | None:
    """Of a folder with config.json and safetensors; None where these are not there or say something else."""
    try:
        config = json.loads((folder / "config.json").read_text())
        tensors = dict(_tensors(folder))
        config = config.get("text_config", config)
        hidden, layers = _read_size(config, "hidden_size", "n_embd"), _read_size(config, "num_hidden_layers", "n_layer")
        vocabulary = int(config["vocab_size"])
        heads = _read_size(config, "num_attention_heads", "n_head", default=1)  # of Mamba
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    matrices = {name: shape for name, shape in tensors.items() if len(shape) == 2 and IN_A_BLOCK.search(name)}
    if not matrices:
        return None
    known = ARCHITECTURES.get(str(config.get("model_type")))
    named = known.matrices if known is not None else Matrices(None)
    return ModelShape(
        parameters=sum(math.prod(shape) for shape in tensors.values()),
        body=sum(math.prod(shape) for shape in matrices.values()),
        hidden=hidden,
        layers=layers,
        heads=heads,
        vocabulary=vocabulary,
        adapted=_count_adapted(matrices, named.linear, ()),
        attention=_count_adapted(matrices, named.attention, SEPARATE),
        query_value=_count_adapted(matrices, named.query_value, QUERY_VALUE),
        float16=holds_in_float16(str(config.get("model_type"))),
    )


def _read_size(config: Mapping[str, Any], *names: str, default: int | None = None) -> int:
    """The first of these fields. Raises KeyError where there is none of them and no default."""
    present = [int(config[name]) for name in names if config.get(name) is not None]
    if not present and default is None:
        raise KeyError(names[0])
    return present[0] if present else default or 0


def _count_adapted(matrices: Mapping[str, list[int]], known: tuple[str, ...] | None, otherwise: tuple[str, ...]) -> int:
    """Rows and columns of those with such names; of all where no name is known."""
    ends = tuple(f".{name}.weight" for name in known or otherwise)
    return sum(sum(shape) for name, shape in matrices.items() if not ends or name.endswith(ends))


def _tensors(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Names and shapes out of the headers: eight bytes tell the length of the JSON that follows."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > 100 << 20:  # the format's own limit
                raise ValueError(f"{path.name} is not a safetensors file")
            header = json.loads(file.read(length))
        yield from ((name, told["shape"]) for name, told in header.items() if name != "__metadata__")


def shape_of_tiny(tiny: TinyShape) -> ModelShape:
    """Qwen2's layers: q, k, v, o, and three matrices of a feed-forward three times as wide."""
    hidden, wide = tiny.hidden, 3 * tiny.hidden
    keys = hidden * tiny.key_value_heads // tiny.heads
    query_value = [(hidden, hidden), (keys, hidden)]
    attention = [*query_value, (keys, hidden), (hidden, hidden)]
    matrices = [*attention, (wide, hidden), (wide, hidden), (hidden, wide)]
    body = tiny.layers * sum(rows * columns for rows, columns in matrices)
    return ModelShape(
        parameters=body + tiny.vocabulary * hidden,
        body=body,
        hidden=hidden,
        layers=tiny.layers,
        heads=tiny.heads,
        vocabulary=tiny.vocabulary,
        adapted=tiny.layers * sum(map(sum, matrices)),
        attention=tiny.layers * sum(map(sum, attention)),
        query_value=tiny.layers * sum(map(sum, query_value)),
    )


def shape_of_name(name: str) -> ModelShape | None:
    """Guessed of a hub id that tells its size (Qwen2.5-0.5B, SmolLM2-135M): a plain decoder of so many parameters."""
    found = SIZE_IN_NAME.findall(name.rpartition("/")[2])
    if not found:
        return None
    number, unit = found[-1]
    parameters = int(float(number) * (10**9 if unit.lower() == "b" else 10**6))
    body = int(0.85 * parameters)
    # A decoder has 12 L h² weights in L layers of width h; those of today have L near h / 64.
    hidden = max(64, round((body * 64 / 12) ** (1 / 3)))
    layers = max(1, round(hidden / 64))
    return ModelShape(
        parameters=parameters,
        body=body,
        hidden=hidden,
        layers=layers,
        heads=max(1, hidden // 64),
        vocabulary=150_000,
        adapted=layers * 21 * hidden,
        attention=layers * 8 * hidden,
        query_value=layers * 4 * hidden,
        exact=False,
    )


def find_in_hub_cache(name: str, caches: list[Path]) -> Path | None:
    """The folder that transformers will load a hub id from, if it has been downloaded."""
    for cache in caches:
        home = cache / f"models--{name.replace('/', '--')}"
        try:
            revision = (home / "refs" / "main").read_text().strip()
        except OSError:
            continue
        folder = home / "snapshots" / revision
        if folder.is_dir():
            return folder
    return None


def estimate_run(
    shape: ModelShape,
    spec: RunSpec,
    *,
    rows: int,
    heldout: int,
    device: str,
    cores: int,
    rate: Rate | None,
    prompt_tokens: int | None = None,
    episode_steps: int | None = None,
    without_propensity: bool = False,
    bf16: bool = True,
) -> Estimate:
    """`rows` are those that are learnt from, replay included; `device` is cpu, cuda, rocm or mps, and `bf16` whether it
    multiplies in bfloat16 if it is a GPU; `rate` that of earlier runs, None without any; `episode_steps`, of tasks, the
    actions that an episode has at most; `without_propensity`: some logged rows have none, so `ppo` acts afresh."""
    acts = episode_steps or STEPS_UNTOLD
    if spec.lora is not None:
        trained = lora_parameters(shape, spec.lora)
    else:
        trained = shape.body if spec.freeze_embeddings else shape.parameters
    afresh = without_propensity and spec.method == "ppo" and spec.train_rows is RowKind.LOGGED
    half = device in ("cuda", "rocm", "mps") and (bf16 or shape.float16)
    parts = _memory(shape, spec, trained, acts, half=half, afresh=afresh)
    asked = min(prompt_tokens or spec.max_prompt_tokens, spec.max_prompt_tokens)
    work = _work(shape, spec, rows=rows, heldout=heldout, tokens=asked + TEMPLATE_TOKENS, acts=acts, afresh=afresh)
    known = rate or Rate(ROUGH_FLOPS[device] * (cores if device == "cpu" else 1))
    output = 4 * (trained if spec.lora is not None else shape.parameters)
    epochs = spec.optimiser.epochs if spec.epoch_checkpoints else 0
    # One checkpoint more than are kept is written before the oldest goes; the output is copied into the store.
    state = 4 * trained * (1 + MOMENTS)
    return Estimate(
        parameters=shape.parameters,
        trained=trained,
        exact=shape.exact,
        device=device,
        memory_bytes=sum(parts.values()),
        parts=parts,
        disk_bytes=(CHECKPOINTS_KEPT + 1) * state + (2 + epochs) * output,
        work=work,
        seconds=START_SECONDS + 4 * shape.parameters / LOAD_BYTES_A_SECOND + work / known.flops,
        measured_runs=known.runs,
    )


def lora_parameters(shape: ModelShape, lora: Lora) -> int:
    """A (r, in) and B (out, r) for each adapted matrix."""
    adapted = {"all-linear": shape.adapted, "attention": shape.attention, "query-value": shape.query_value}
    return lora.r * adapted[lora.targets]


def _memory(shape: ModelShape, spec: RunSpec, trained: int, acts: int, *, half: bool, afresh: bool) -> dict[str, int]:
    """`half`: frozen weights and products are in 16 bits."""
    if spec.lora is None:
        weights = 4 * shape.parameters
    elif spec.quantisation is not None:
        weights = round(0.56 * shape.body) + 2 * (shape.parameters - shape.body) + 4 * trained
    else:
        weights = (2 if half else 4) * shape.parameters + 4 * trained
    tokens = spec.max_prompt_tokens + TEMPLATE_TOKENS + spec.max_completion_tokens  # of the longest row
    at_once = spec.optimiser.batch_size
    if spec.rewards_fresh_decisions or afresh:
        at_once = min(at_once, spec.online.prompts_per_step)
    if spec.acts_while_it_learns:  # a row is a step of an episode
        at_once = min(at_once, spec.online.prompts_per_step * spec.online.group * acts)
    # Korthikanti et al. 2022, eq. 1: bytes of one layer's activations in 16 bits, for one row.
    layer = tokens * shape.hidden * (34 + 5 * shape.heads * tokens / shape.hidden) * (1 if half else 2)
    kept = 4 * tokens * shape.hidden * shape.layers + layer if spec.gradient_checkpointing else shape.layers * layer
    read = at_once if spec.method == "pretrain" else math.ceil(at_once * TEXT_SHARE)
    logits = 3 * 4 * read * spec.max_completion_tokens * shape.vocabulary if spec.weight_of_text else 0
    scored = spec.evaluate.batch_size if spec.evaluate is not None else 0
    forward = 4 * scored * tokens * shape.hidden * 8
    return {
        "weights": weights,
        "gradients": 4 * trained,
        "optimiser": 4 * MOMENTS * trained,
        "activations": round(max(at_once * kept + logits, forward)),
        "process": PROCESS_BYTES,
    }


def _work(shape: ModelShape, spec: RunSpec, *, rows: int, heldout: int, tokens: int, acts: int, afresh: bool) -> float:
    """2 operations a weight and token in a forward; twice that in a backward, of which frozen weights need half
    (Kaplan et al. 2020, §2.1)."""
    if spec.trains_by.makes_reward_model and spec.train_rows is RowKind.LABELLED:
        pairs = spec.reward_model.others or FEWEST_OTHERS
        rows, heldout = rows * pairs, heldout * pairs
    forward = 2.0 * shape.body * tokens
    train = forward * (3 if spec.lora is None else 2) + (forward if spec.gradient_checkpointing else 0)
    train *= 1 + (TEXT_SHARE if spec.weight_of_text and spec.method != "pretrain" else 0)
    if spec.train_rows is RowKind.TASKS and not spec.acts_while_it_learns:
        learning = rows * spec.reward_weighted.episodes * acts * (forward + spec.optimiser.epochs * train)
    elif spec.acts_while_it_learns:
        learning = spec.online.steps * spec.online.prompts_per_step * spec.online.group * acts * (forward + train)
    elif spec.rewards_fresh_decisions or afresh:
        visits = rows * spec.optimiser.epochs if afresh else spec.online.steps * spec.online.prompts_per_step
        passes = spec.online.inner_epochs if spec.method == "ppo" else 1
        learning = visits * passes * train + (visits if spec.method == "ppo" else 0) * forward
        learning += 2 * rows * forward if afresh else 0.0  # for the reward model, and for the divergence
    else:
        scoring = rows * forward if spec.train_rows is RowKind.LOGGED else 0.0
        learning = rows * spec.optimiser.epochs * train + scoring
    models = 1 if spec.base.tiny is not None else 2
    free = min(heldout, spec.evaluate.free_rows if spec.evaluate is not None else 0)
    if spec.heldout_rows is RowKind.TASKS:
        heldout, free = heldout * acts * 2, 0  # as it serves, and greedily
    return learning + models * (heldout + free) * forward


def say_count(parameters: int) -> str:
    """0.27 billion, 650 thousand"""
    for name, unit in (("billion", 10**9), ("million", 10**6), ("thousand", 10**3)):
        if parameters >= unit:
            return f"{parameters / unit:.3g} {name}"
    return str(parameters)
