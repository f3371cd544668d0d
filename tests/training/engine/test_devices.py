"""Which device an engine takes. Backends that this machine lacks are made to say that they are there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import torch

from training.engine.attempt.checkpoints import newest_checkpoint, write_checkpoint
from training.engine.attempt.events import Events
from training.engine.machine.hardware import autocast, choose_device, choose_precision, frozen_dtype, prepare_torch
from training.engine.spec.run_spec import CHECKPOINTS_KEPT, RunSpec


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
