"""What this machine has, and the training settings that suit it. PURE.

Facts come from the operating system, `nvidia-smi` and sysfs, never from torch: the web reads them too. The form that
starts a run shows them, `manage.py hardware` prints them, and default settings of runs on real bases follow them.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

import psutil

GB = 10**9
"""As machines are sold: one of 64 GB tells its kernel a little over 64 · 10⁹ bytes, but less than 64 · 2³⁰."""
ASK_SECONDS = 10.0
ROWS_AN_UPDATE = 16
"""Rows whose gradients make one update of a real base (training.runs.defaults), in as many batches as it takes."""
TIER_TOKENS = 512
"""The length of row that a tier's batch is for."""


class Profile(StrEnum):
    """AUTO_DETECT becomes one of the others."""

    AUTO_DETECT = "AUTO_DETECT"
    GPU_ENABLED = "GPU_ENABLED"
    RYZEN_OPTIMIZED = "RYZEN_OPTIMIZED"
    CPU_ONLY = "CPU_ONLY"


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory_bytes` of Apple's MPS is the machine's own memory, which it shares. `bf16`: it multiplies in bfloat16 by
    itself, and does not only hold weights in it."""

    kind: Literal["cuda", "rocm", "mps"]
    name: str
    memory_bytes: int
    bf16: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores` are physical, `threads` logical. `instructions`: of avx, avx2 and avx512, those that the CPU has.

    `memory_bytes` is what this process may use: the machine's, or its control group's limit where that is less.
    """

    cpu: str
    cores: int
    threads: int
    memory_bytes: int
    instructions: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()

    def gpu(self, kind: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.kind == kind), None)

    @property
    def accelerator(self) -> Gpu | None:
        """The GPU that an engine takes; of several, the one that the driver lists first."""
        return self.gpus[0] if self.gpus else None


@dataclass(frozen=True, slots=True)
class Recommended:
    """Settings for a run on this machine. `model` is the largest base that is comfortable with them.

    `batch_size`: rows of 512 tokens in one forward. `generations`: actions or texts drawn for one prompt (GRPO).
    `precision`: bf16, fp16 or fp32, of weights that are not trained (training.engine.machine.hardware.frozen_dtype);
    for products of matrices see choose_precision there.
    """

    profile: Profile
    model: str
    parameters: float
    batch_size: int
    lora_r: int
    lora_alpha: int
    generations: int
    precision: Literal["bf16", "fp16", "fp32"]


@dataclass(frozen=True, slots=True)
class _Tier:
    """From so many GB on. Models are Qwen2.5's, by their size in billions of parameters."""

    least_gb: float
    size: float
    batch_size: int
    lora_r: int
    lora_alpha: int
    generations: int


RAM_TIERS = (
    _Tier(64, 3, 4, 16, 32, 8),
    _Tier(32, 1.5, 2, 16, 32, 6),
    _Tier(16, 0.5, 1, 8, 16, 4),
    _Tier(0, 0.5, 1, 4, 8, 2),
)
GPU_TIERS = (
    _Tier(24, 7, 8, 32, 64, 8),
    _Tier(16, 3, 4, 16, 32, 8),
    _Tier(8, 1.5, 2, 16, 32, 6),
)
"""The specification leaves the ranks of the last, all alphas and all generations open: α is 2r, and the rest is that of
the RAM tier with the same model, or the largest."""


SMALLEST = {"HuggingFaceTB/SmolLM2-135M-Instruct": 135e6, "tiny": 650e3}
"""Where no model of a tier has room."""


class NoSuchHardware(ValueError):
    """The profile wants what the machine lacks."""


def recommend(machine: Machine, profile: Profile = Profile.AUTO_DETECT) -> Recommended:
    """The tier of the GPU's memory where a GPU of 8 GB or more is used, else that of the RAM.

    CPU_ONLY looks at no GPU. Raises NoSuchHardware for GPU_ENABLED without such a GPU, and RYZEN_OPTIMIZED without a
    Ryzen.
    """
    gpu = machine.accelerator
    tier = _tier_of(GPU_TIERS, gpu.memory_bytes) if gpu is not None else None
    ryzen = "ryzen" in machine.cpu.lower()
    if profile is Profile.AUTO_DETECT:
        found = Profile.GPU_ENABLED if tier is not None else Profile.RYZEN_OPTIMIZED if ryzen else Profile.CPU_ONLY
        return recommend(machine, found)
    if profile is Profile.GPU_ENABLED:
        if gpu is None or tier is None:
            seen = "no GPU" if gpu is None else f"{gpu.name} with {gpu.memory_bytes / GB:.1f} GB"
            raise NoSuchHardware(f"GPU_ENABLED needs a GPU with {GPU_TIERS[-1].least_gb:g} GB; found: {seen}")
        return _as_recommended(profile, tier, gpu)
    if profile is Profile.RYZEN_OPTIMIZED and not ryzen:
        raise NoSuchHardware(f"RYZEN_OPTIMIZED needs an AMD Ryzen; found: {machine.cpu}")
    of_ram = _tier_of(RAM_TIERS, machine.memory_bytes)
    assert of_ram is not None  # the last begins at 0
    return _as_recommended(profile, of_ram, gpu)


def _tier_of(tiers: Sequence[_Tier], memory_bytes: int) -> _Tier | None:
    return next((tier for tier in tiers if memory_bytes >= tier.least_gb * GB), None)


def _as_recommended(profile: Profile, tier: _Tier, gpu: Gpu | None) -> Recommended:
    return Recommended(
        profile,
        f"Qwen/Qwen2.5-{tier.size:g}B-Instruct",
        tier.size * 10**9,
        tier.batch_size,
        tier.lora_r,
        tier.lora_alpha,
        tier.generations,
        "fp32" if gpu is None else "bf16" if gpu.bf16 else "fp16",
    )


def list_smaller(told: Recommended) -> Iterator[Recommended]:
    """The recommendation with smaller and smaller models, down to the tiny one, one row at a time."""
    sizes = {f"Qwen/Qwen2.5-{tier.size:g}B-Instruct": tier.size * 10**9 for tier in (*GPU_TIERS, *RAM_TIERS)}
    for model, parameters in {**sizes, **SMALLEST}.items():
        if parameters < told.parameters:
            yield replace(told, model=model, parameters=parameters, batch_size=1)


@dataclass(frozen=True, slots=True)
class GpuTier:
    """What an NVIDIA GPU of at least `least_gb` GB holds of a model of 7 billion parameters in training, as
    training.runs.estimates.needs adds it up; `config`: the settings for it, in examples/configs."""

    least_gb: int
    holds: str
    config: str


SEVEN_BILLION = (
    GpuTier(80, "7B in bfloat16 under LoRA r 32, groups of 8, prompts of 4,096 tokens", "qwen_2_5_7b.yaml"),
    GpuTier(48, "7B in bfloat16 under LoRA r 16, groups of 4, prompts of 2,048 tokens", "qwen_2_5_7b.yaml"),
    GpuTier(24, "7B in 4 bits under LoRA r 16, groups of 4, prompts of 1,024 tokens", "qwen_2_5_7b_local.yaml"),
)


def find_gpu_tier(machine: Machine) -> GpuTier | None:
    """The largest tier that the largest CUDA GPU reaches; None below 24 GB. A card that is sold as 80 GB may report a
    little less: a twentieth is let pass."""
    memory = max((gpu.memory_bytes for gpu in machine.gpus if gpu.kind == "cuda"), default=0)
    return next((tier for tier in SEVEN_BILLION if memory >= 0.95 * tier.least_gb * GB), None)


def fit_settings(
    settings: Mapping[str, object], told: Recommended, *, tokens: int, parameters: int | None
) -> dict[str, object]:
    """Settings of a run on a real base, as fields of the engine's spec, with batches and adapter of this machine.

    A tier's batch is for its own model and rows of 512 tokens: smaller bases and shorter rows get as many more rows, up
    to the 16 of one update, and as few batches to accumulate. So the updates stay what they are, and only memory and
    time change. `parameters` of the base; None where nobody knows counts as the tier's model.
    """
    share = (told.parameters / parameters if parameters else 1.0) * TIER_TOKENS / max(tokens, 1)
    batch = 1
    while batch * 2 <= min(ROWS_AN_UPDATE, told.batch_size * share):
        batch *= 2
    optimiser = settings.get("optimiser")
    fitted = dict(settings)
    fitted["optimiser"] = {
        **(optimiser if isinstance(optimiser, Mapping) else {}),
        "batch_size": batch,
        "accumulate": ROWS_AN_UPDATE // batch,
    }
    lora = settings.get("lora")
    if isinstance(lora, Mapping):
        fitted["lora"] = {**lora, "r": told.lora_r, "alpha": told.lora_alpha}
    return fitted


def why_no_quantisation(machine: Machine) -> str:
    """What keeps weights from being held in 4 bits here; "" where nothing does."""
    if machine.gpu("cuda") is None:
        return "4bit needs a CUDA GPU, and this machine has none: leave it out"
    if importlib.util.find_spec("bitsandbytes") is None:
        return "4bit needs the Python package bitsandbytes, which is not installed: install it, or leave it out"
    return ""


@functools.cache
def this_machine() -> Machine:
    """Looked at once in each process."""
    return detect()


def detect() -> Machine:
    """Everything that can be seen without torch. What cannot be seen is left out, never guessed."""
    memory = min(psutil.virtual_memory().total, _memory_limit())
    return Machine(
        cpu=_cpu_name(),
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        threads=os.cpu_count() or 1,
        memory_bytes=memory,
        instructions=_instructions(),
        gpus=tuple(_find_gpus(memory)),
    )


def _cpu_name() -> str:
    named = _of_cpuinfo("model name") or _ask("sysctl", "-n", "machdep.cpu.brand_string")
    return named or platform.processor() or platform.machine()


def _instructions() -> tuple[str, ...]:
    """`flags` are Linux's names; macOS lists them as features, with a dot in AVX1.0."""
    told = _of_cpuinfo("flags")
    if platform.system() == "Darwin":
        told = _ask("sysctl", "-n", "machdep.cpu.features", "machdep.cpu.leaf7_features").lower()
    flags = set(told.replace("avx1.0", "avx").split())
    names = {"avx": "avx", "avx2": "avx2", "avx512": "avx512f"}
    return tuple(name for name, flag in names.items() if flag in flags)


def _of_cpuinfo(field: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field)
    return next(values, "")


def _memory_limit() -> float:
    """Of the control group, as containers have one; infinite without."""
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            told = Path(place).read_text().strip()
        except OSError:
            continue
        return float(told) if told.isdecimal() else float("inf")
    return float("inf")


def _find_gpus(memory_bytes: int) -> list[Gpu]:
    """Those that an engine may use: CUDA's, else ROCm's, else Apple's; `RECKONER_DEVICE` may rule them out."""
    named = os.environ.get("RECKONER_DEVICE", "")
    if named.startswith("cpu"):
        return []
    cuda = read_nvidia(
        _ask("nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits"),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return [Gpu("mps", "Apple GPU", memory_bytes, bf16=apple_has_bfloat16())]
    return cuda or read_rocm(Path("/sys/class/drm"))


def apple_has_bfloat16() -> bool:
    """Whether Apple's GPU multiplies in bfloat16 here: from macOS 14 on."""
    release = platform.mac_ver()[0].partition(".")[0]
    return not release or int(release) >= 14


def read_nvidia(told: str, visible: str | None) -> list[Gpu]:
    """What `nvidia-smi` prints (name, MiB, compute capability), as far as CUDA_VISIBLE_DEVICES lets it be seen."""
    found = []
    for row in csv.reader(told.splitlines(), skipinitialspace=True):
        try:
            name, mebibytes, capability = row
            found.append(Gpu("cuda", name, int(mebibytes) << 20, bf16=float(capability) >= 8.0))
        except ValueError:
            continue  # "No devices were found", or a field that this driver does not know
    if visible is None:
        return found
    places = [int(place) for place in visible.split(",") if place.strip().isdecimal()]
    return [found[place] for place in places if place < len(found)]


def read_rocm(cards: Path) -> list[Gpu]:
    """AMD's cards with memory of their own, as the kernel's driver lists them."""
    found = []
    for device in sorted(cards.glob("card*/device")):
        try:
            vendor = (device / "vendor").read_text().strip()
            memory = int((device / "mem_info_vram_total").read_text())
        except (OSError, ValueError):
            continue
        if vendor == "0x1002":
            named = device / "product_name"
            name = named.read_text().strip() if named.is_file() else ""
            found.append(Gpu("rocm", name or "AMD GPU", memory, bf16=True))
    return found


def _ask(*command: str) -> str:
    """What the program prints; "" where it is not there, fails, or takes too long."""
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
            [program, *command[1:]], capture_output=True, text=True, timeout=ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
