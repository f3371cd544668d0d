"""Which device an engine takes. Backends that this machine lacks are made to say that they are there."""

from __future__ import annotations

import platform
from contextlib import closing
from pathlib import Path

import pytest
import torch
from engine_world import World, engine, read_result, write_run

from training.engine.attempt.checkpoints import newest_checkpoint, write_checkpoint
from training.engine.attempt.events import Events
from training.engine.machine.hardware import autocast, choose_device, choose_precision, frozen_dtype, prepare_torch
from training.engine.spec.run_spec import CHECKPOINTS_KEPT, RunSpec
from training.engine.spec.settings import Optimiser
from training.engine.updates.fit import Updates
from training.engine.updates.scaling import LossScale


@pytest.mark.parametrize(
    ("named", "cuda", "mps", "device"),
    [
        (None, True, True, "cuda"),
        (None, False, True, "mps"),
        (None, False, False, "cpu"),
        ("cpu", True, True, "cpu"),
        ("mps", True, True, "mps"),
    ],
)
def test_cuda_comes_before_mps_and_that_before_the_cpu(
    named: str | None, cuda: bool, mps: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.delenv("RECKONER_DEVICE", raising=False)
    if named is not None:
        monkeypatch.setenv("RECKONER_DEVICE", named)
    assert choose_device() == torch.device(device)


def test_a_run_does_not_use_cudnn_s_attention() -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    prepare_torch(0, torch.device("cuda"))
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_a_gpu_holds_frozen_weights_in_half_as_much_and_the_cpu_in_full() -> None:
    """And multiplies in what they are held in: an adapter's own weights are float32."""
    mps, cpu = torch.device("mps"), torch.device("cpu")
    assert choose_precision(mps, 64) is choose_precision(mps, 4096) is frozen_dtype(mps) is torch.bfloat16
    assert frozen_dtype(cpu) is choose_precision(cpu, 64) is torch.float32
    with autocast(mps, torch.bfloat16):
        assert torch.get_autocast_dtype("mps") is torch.bfloat16 and not torch.is_autocast_enabled("cpu")
    with autocast(mps, torch.float32):
        assert not torch.is_autocast_enabled("mps")


def test_a_gpu_without_bfloat16_takes_float16_but_for_models_that_it_cannot_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch would emulate bfloat16 on it; Apple's have it from macOS 14 on."""
    cuda, mps = torch.device("cuda"), torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert frozen_dtype(cuda) is choose_precision(cuda, 4096) is frozen_dtype(cuda, "llama") is torch.float16
    assert frozen_dtype(cuda, "gemma3_text") is choose_precision(cuda, 640, None, "gemma3_text") is torch.float32
    assert choose_precision(cuda, 64, "bfloat16") is torch.bfloat16
    assert choose_precision(torch.device("cpu"), 64, "float16") is torch.float16
    for release, precision in (("13.7.1", torch.float16), ("14.0", torch.bfloat16), ("26.1", torch.bfloat16)):
        monkeypatch.setattr(platform, "mac_ver", lambda release=release: (release, ("", "", ""), "arm64"))
        assert frozen_dtype(mps) is choose_precision(mps, 64) is precision


class TestLossScale:
    def test_a_gradient_that_float16_cannot_hold_is_kept(self) -> None:
        """1e-9 is 0 in float16; the loss scale is divided out again."""
        weight = torch.nn.Parameter(torch.ones(4))
        updates = Updates({"weight": weight}, Optimiser(learning_rate=1e-3, weight_decay=0), 10, torch.float16)
        updates.backward((weight.to(torch.float16) * 1e-4).sum().float() * 1e-5)
        assert updates.scale is not None and updates.scale.unscale([weight])
        assert weight.grad is not None and weight.grad.tolist() == pytest.approx([1e-9] * 4, rel=0.01)
        plain = torch.nn.Parameter(torch.ones(4))
        ((plain.to(torch.float16) * 1e-4).sum().float() * 1e-5).backward()
        assert plain.grad is not None and not plain.grad.any()

    def test_an_overflow_leaves_the_update_out_and_halves_the_scale_and_both_are_resumed(self) -> None:
        weight = torch.nn.Parameter(torch.ones(2))
        updates = Updates({"weight": weight}, Optimiser(), 10, torch.float16)
        assert updates.scale is not None
        updates.apply(weight.to(torch.float16).sum().float() * 1e4)
        assert weight.tolist() == [1.0, 1.0] and updates.scale.value == 2.0**15
        again = Updates({"weight": torch.nn.Parameter(torch.ones(2))}, Optimiser(), 10, torch.float16)
        again.restore(updates.state())
        assert again.scale is not None and again.scale.value == 2.0**15
        updates.apply(weight.to(torch.float16).sum().float())
        assert weight.tolist() != [1.0, 1.0]
        assert Updates({"weight": weight}, Optimiser(), 10).scale is None

    def test_at_a_scale_of_1_what_is_no_number_is_let_pass(self) -> None:
        """So that the run says that it diverged, instead of standing still."""
        weight = torch.nn.Parameter(torch.ones(1))
        scale = LossScale()
        weight.grad = torch.tensor([float("inf")])
        assert sum(not scale.unscale([weight]) for _ in range(20)) == 16 and scale.value == 1.0


def test_the_newest_two_checkpoints_stay_and_the_newest_is_taken_up(tmp_path: Path) -> None:
    told = {"run_id": "x", "method": "posterior", "base": {"path": "/base"}, "data": {"train": "rows"}}
    spec, folder = RunSpec.model_validate(told), tmp_path / "1" / "checkpoints"
    for step in (9, 10, 30, 200):
        write_checkpoint(folder, step, {"step": torch.tensor(step)}, spec)
        left = sorted(path.name for path in folder.iterdir())
        assert left[-1] == f"step-{step:08d}" and len(left) <= CHECKPOINTS_KEPT
    assert left == ["step-00000030", "step-00000200"]
    with closing(Events(tmp_path / "events.jsonl")) as events:
        newest = newest_checkpoint(tmp_path, spec, events)
    assert newest is not None and (newest.step, int(newest.state["step"])) == (200, 200)


@pytest.mark.slow
def test_a_model_learns_in_float16_as_in_float32(world: World, tmp_path: Path) -> None:
    """On the CPU, which can do it too; a GPU without bfloat16 does it by default."""
    accuracies = {}
    for precision in ("float32", "float16"):
        spec = {
            "method": "sft",
            "base": {"path": str(world.base)},
            "precision": precision,
            "optimiser": {"learning_rate": 2e-3, "epochs": 2, "batch_size": 16},
            "evaluate": {"free_rows": 0},
        }
        run = write_run(tmp_path / precision, spec, train=world.taught[:200], heldout=world.heldout[:200])
        assert engine(run) == 0
        scores = read_result(run)["scores"]
        assert scores["trained"]["accuracy"] > scores["base"]["accuracy"]
        accuracies[precision] = scores["trained"]["accuracy"]
    assert abs(accuracies["float16"] - accuracies["float32"]) < 0.05
