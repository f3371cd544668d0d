"""What a machine is recommended is what it has room for, whatever machine it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from training.engine.machine.facts import GB, Gpu, Machine, NoSuchHardware, Profile
from training.runs.estimates.capacity import Load, estimate_load, find_shortages, recommend_fitting, spec_of_recommended

MEMORIES = (1, 2, 4, 8, 15.9, 16, 24, 32, 64, 128, 512)
RYZEN, M1 = "AMD Ryzen 9 5950X", "Apple M1"


def machines() -> Iterator[Machine]:
    for ram in MEMORIES:
        memory = int(ram * GB)
        yield Machine(RYZEN, 8, 16, memory, ("avx", "avx2"))
        yield Machine(M1, 8, 8, memory, (), (Gpu("mps", "Apple GPU", memory, bf16=True),))
        for kind in ("cuda", "rocm"):
            cards: Any = [Gpu(kind, "a GPU", int(size * GB), bf16=size > 16) for size in (4, 8, 16, 24, 80)]  # type: ignore[arg-type]
            yield from (Machine(RYZEN, 8, 16, memory, ("avx", "avx2"), (card,)) for card in cards)


def test_no_recommendation_is_refused_by_the_estimate(tmp_path: Any) -> None:
    count = 0
    for machine in machines():
        for profile in Profile:
            try:
                told = recommend_fitting(machine, profile)
            except NoSuchHardware:
                continue
            spec = spec_of_recommended(told)
            load = Load(None, told.model, rows=1000, heldout=100, folder=tmp_path)
            estimate = estimate_load(spec, load, machine)
            assert estimate is not None
            short = [fault for fault in find_shortages(spec, load, estimate, machine) if fault.field == "memory"]
            assert short == [], (machine, profile, told)
            # And in the precision that it is told, by which its weights are counted.
            bytes_each = 2 if told.precision == "bf16" else 4
            if told.model != "tiny":
                assert estimate.parts["weights"] == bytes_each * estimate.parameters + 4 * estimate.trained
            assert (told.precision == "bf16") == bool(machine.gpus)
            count += 1
    assert count > 300


@pytest.mark.parametrize(
    ("machine", "model"),
    [
        (Machine(M1, 8, 8, 16 * GB, (), (Gpu("mps", "Apple GPU", 16 * GB, bf16=True),)), "Qwen2.5-3B-Instruct"),
        (Machine("a CPU", 8, 16, 16 * GB), "Qwen2.5-0.5B-Instruct"),
        (Machine("a CPU", 2, 2, 4 * GB), "SmolLM2-135M-Instruct"),
        (Machine("a CPU", 1, 1, 1 * GB), "tiny"),
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
