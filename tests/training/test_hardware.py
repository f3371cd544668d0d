"""What a machine is told to train with: every tier and profile, and reading the tools that know of GPUs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command

from training.engine.machine.facts import (
    GB,
    Gpu,
    Machine,
    NoSuchHardware,
    Profile,
    detect,
    fit_settings,
    read_nvidia,
    read_rocm,
    recommend,
    this_machine,
    why_no_quantisation,
)
from training.runs.defaults.recipes import round_settings


def machine(ram: float, *, gpu: float | None = None, cpu: str = "Intel Xeon", kind: str = "cuda") -> Machine:
    gpus = (Gpu(kind, "a GPU", int(gpu * GB), bf16=True),) if gpu is not None else ()  # type: ignore[arg-type]
    return Machine(cpu, 16, 32, int(ram * GB), ("avx", "avx2"), gpus)


RYZEN = machine(40, cpu="AMD Ryzen 9 5950X 16-Core Processor")


@pytest.mark.parametrize(
    ("found", "profile", "size", "batch", "r", "alpha", "generations"),
    [
        (RYZEN, "RYZEN_OPTIMIZED", "1.5", 2, 16, 32, 6),
        (machine(64), "CPU_ONLY", "3", 4, 16, 32, 8),
        (machine(63.9), "CPU_ONLY", "1.5", 2, 16, 32, 6),
        (machine(32), "CPU_ONLY", "1.5", 2, 16, 32, 6),
        (machine(31.9), "CPU_ONLY", "0.5", 1, 8, 16, 4),
        (machine(16), "CPU_ONLY", "0.5", 1, 8, 16, 4),
        (machine(15.9), "CPU_ONLY", "0.5", 1, 4, 8, 2),
        (machine(2), "CPU_ONLY", "0.5", 1, 4, 8, 2),
        (machine(16, gpu=24), "GPU_ENABLED", "7", 8, 32, 64, 8),
        (machine(16, gpu=23.9), "GPU_ENABLED", "3", 4, 16, 32, 8),
        (machine(16, gpu=16, kind="rocm"), "GPU_ENABLED", "3", 4, 16, 32, 8),
        (machine(16, gpu=15.9), "GPU_ENABLED", "1.5", 2, 16, 32, 6),
        (machine(16, gpu=8), "GPU_ENABLED", "1.5", 2, 16, 32, 6),
        (machine(40, gpu=7.9), "CPU_ONLY", "1.5", 2, 16, 32, 6),  # too small a GPU to train on
    ],
)
def test_every_tier(found: Machine, profile: str, size: str, batch: int, r: int, alpha: int, generations: int) -> None:
    told = recommend(found)
    assert (told.profile, told.model) == (profile, f"Qwen/Qwen2.5-{size}B-Instruct")
    assert (told.batch_size, told.lora_r, told.lora_alpha, told.generations) == (batch, r, alpha, generations)
    assert told.precision == ("bf16" if found.gpus else "fp32")
    assert recommend(found, Profile(profile)) == told


def test_a_profile_that_the_machine_lacks_is_refused_and_the_cpu_can_always_be_chosen() -> None:
    with_gpu = machine(32, gpu=80)
    # The engine takes the GPU all the same, and holds its weights in bfloat16.
    assert recommend(with_gpu, Profile.CPU_ONLY) == replace(recommend(machine(32)), precision="bf16")
    with pytest.raises(NoSuchHardware, match="found: no GPU"):
        recommend(RYZEN, Profile.GPU_ENABLED)
    with pytest.raises(NoSuchHardware, match=r"a GPU with 4\.0 GB"):
        recommend(machine(32, gpu=4), Profile.GPU_ENABLED)
    with pytest.raises(NoSuchHardware, match="found: Intel Xeon"):
        recommend(machine(32), Profile.RYZEN_OPTIMIZED)
    assert recommend(Machine("old", 4, 4, 32 * GB, ("avx",))).precision == "fp32"


@pytest.mark.parametrize(
    ("tokens", "parameters", "batch"),
    [(512, 1_500_000_000, 2), (512, None, 2), (64, 1_500_000_000, 16), (128, 3_000_000_000, 4), (512, 8 * 10**9, 1)],
)
def test_updates_keep_their_sixteen_rows_whatever_fits_into_one_batch(
    tokens: int, parameters: int | None, batch: int
) -> None:
    measured = round_settings("a/real-model", 5000)
    fitted = fit_settings(measured, recommend(RYZEN), tokens=tokens, parameters=parameters)
    assert fitted["optimiser"] == {**measured["optimiser"], "batch_size": batch, "accumulate": 16 // batch}
    assert fitted["lora"] == {"r": 16, "alpha": 32}


def test_what_the_tools_of_gpus_tell_is_read_and_nonsense_is_none(tmp_path: Path) -> None:
    told = "NVIDIA GeForce RTX 4090, 24564, 8.9\nTesla T4, 15360, 7.5\n"
    first, second = read_nvidia(told, None)
    assert (first.name, first.bf16, second.bf16) == ("NVIDIA GeForce RTX 4090", True, False)
    assert recommend(Machine("x", 1, 1, 8 * GB, (), (first,))).batch_size == 8
    assert read_nvidia(told, "1") == [second] and read_nvidia(told, "") == read_nvidia(told, "-1") == []
    assert read_nvidia("No devices were found", None) == []
    for number, vendor in enumerate(("0x1002", "0x8086")):
        device = tmp_path / f"card{number}" / "device"
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor)
        (device / "mem_info_vram_total").write_text(str(16 * GB))
    (card,) = read_rocm(tmp_path)
    assert (card.kind, card.memory_bytes) == ("rocm", 16 * GB)


@pytest.mark.parametrize(("named", "kinds"), [(None, ["mps"]), ("cpu", [])])
def test_a_mac_has_apples_gpu_with_the_memory_of_the_machine(
    named: str | None, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Mac is tested on: what its system says of itself is put in its place."""
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("training.engine.machine.facts._ask", lambda *command: "")
    monkeypatch.delenv("RECKONER_DEVICE", raising=False)
    if named is not None:
        monkeypatch.setenv("RECKONER_DEVICE", named)
    found = detect()
    assert [gpu.kind for gpu in found.gpus] == kinds
    assert all(gpu.memory_bytes == found.memory_bytes and gpu.bf16 for gpu in found.gpus)
    assert why_no_quantisation(found) is not None  # 4 bits need CUDA


def test_the_command_tells_this_machine_and_refuses_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    output, refusal = io.StringIO(), io.StringIO()
    call_command("hardware", "--json", stdout=output)
    told = json.loads(output.getvalue())
    assert told["machine"]["cores"] >= 1 and told["machine"]["memory_bytes"] == this_machine().memory_bytes
    assert told["recommended"]["profile"] in list(Profile)
    missing = "RYZEN_OPTIMIZED" if "Ryzen" not in this_machine().cpu else "GPU_ENABLED"
    with pytest.raises(SystemExit) as ended:
        call_command("hardware", "--profile", missing, stderr=refusal)
    assert ended.value.code == 2 and "found:" in refusal.getvalue()
