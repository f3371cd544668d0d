"""What a machine is recommended is what it has room for, whatever machine it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.engine.machine import hardware
from training.engine.machine.facts import GB, Gpu, Machine, NoSuchHardware, Profile
from training.runs.estimates.capacity import Load, estimate_load, find_shortages, recommend_fitting, spec_of_recommended

RYZEN, M1 = "AMD Ryzen 9 5950X", "Apple M1"
ram = st.floats(min_value=1, max_value=2048).map(lambda size: int(size * GB))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any computer: without a GPU, with some of one make, or a Mac, whose GPU has the computer's own memory."""
    memory, cores = draw(ram), draw(st.integers(1, 128))
    cpu = draw(st.sampled_from([RYZEN, "Intel Xeon", "a CPU"]))
    make = draw(st.sampled_from(["none", "cuda", "rocm", "mps"]))
    if make == "none":
        return Machine(cpu, cores, 2 * cores, memory)
    if make == "mps":
        return Machine(M1, cores, cores, memory, (), (Gpu("mps", "Apple GPU", memory, bf16=draw(st.booleans())),))
    bf16 = draw(st.booleans())
    cards = draw(st.lists(st.floats(min_value=1, max_value=300), min_size=1, max_size=4))
    gpus = tuple(Gpu(make, "a GPU", int(size * GB), bf16=bf16) for size in cards)  # type: ignore[arg-type]
    return Machine(cpu, cores, 2 * cores, memory, (), gpus)


def device_of(machine: Machine) -> torch.device:
    """What torch calls it: ROCm's GPUs answer as CUDA's."""
    kind = machine.accelerator.kind if machine.accelerator is not None else "cpu"
    return torch.device("cuda" if kind == "rocm" else kind)


@given(machine=machines(), profile=st.sampled_from(Profile))
@settings(max_examples=150)
def test_no_recommendation_is_refused_by_the_estimate_and_its_precision_is_what_runs(
    machine: Machine, profile: Profile
) -> None:
    try:
        told = recommend_fitting(machine, profile)
    except NoSuchHardware:
        return
    spec = spec_of_recommended(told)
    load = Load(None, told.model, rows=1000, heldout=100, folder=Path("/tmp"))
    estimate = estimate_load(spec, load, machine)
    assert estimate is not None
    short = [fault for fault in find_shortages(spec, load, estimate, machine) if fault.field == "memory"]
    assert short == [], (machine, profile, told)
    # In the precision that it is told its weights are counted, and held.
    if told.model != "tiny":
        bytes_each = {"bf16": 2, "fp16": 2, "fp32": 4}[told.precision]
        assert estimate.parts["weights"] == bytes_each * estimate.parameters + 4 * estimate.trained
    gpu = machine.accelerator
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_bf16_supported", lambda **_: gpu is not None and gpu.bf16)
        patch.setattr(hardware, "apple_has_bfloat16", lambda: gpu is not None and gpu.bf16)
        held = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
        assert held[hardware.frozen_dtype(device_of(machine))] == told.precision
        # Products are in the same, where there is a GPU; a CPU's follow what the CPU can do.
        if gpu is not None:
            assert held[hardware.choose_precision(device_of(machine), 64)] == told.precision


@pytest.mark.parametrize(
    ("machine", "model"),
    [
        (Machine(M1, 8, 8, 16 * GB, (), (Gpu("mps", "Apple GPU", 16 * GB, bf16=True),)), "Qwen2.5-3B-Instruct"),
        (Machine("a CPU", 8, 16, 16 * GB), "Qwen2.5-0.5B-Instruct"),
        (Machine("a CPU", 2, 2, 4 * GB), "SmolLM2-135M-Instruct"),
        (Machine("a CPU", 1, 1, 1 * GB), "tiny"),
        (Machine("a CPU", 1, 1, GB // 2), "tiny"),  # which has no room there either
    ],
)
def test_the_largest_that_fits_is_recommended(machine: Machine, model: str) -> None:
    assert recommend_fitting(machine).model.rpartition("/")[2] == model


def test_a_base_of_eight_billion_on_a_mac_takes_half_of_what_float32_does(tmp_path: Any) -> None:
    mac = Machine(M1, 8, 8, 64 * GB, (), (Gpu("mps", "Apple GPU", 64 * GB, bf16=True),))
    load = Load(None, "meta-llama/Llama-3.1-8B-Instruct", rows=1000, heldout=0, folder=tmp_path)
    spec = spec_of_recommended(recommend_fitting(mac))
    found = [estimate_load(spec, load, machine) for machine in (mac, Machine("a CPU", 8, 8, 64 * GB))]
    on_mac, on_cpu = (one.parts["weights"] for one in found if one is not None)
    assert 15 * GB < on_mac < 18 * GB < 30 * GB < on_cpu
