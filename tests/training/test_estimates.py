"""Memory, disk and time are estimated before a run is queued, and what cannot fit is refused with its figures."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from jobs.models import Job
from tools.factories import DatasetSnapshotFactory, JobFactory, ModelVersionFactory, TrainingRunFactory
from training.engine.machine.facts import GB, Gpu, Machine
from training.engine.spec.run_spec import RunSpec, TinyShape
from training.errors import InvalidRun
from training.models import RunEvent, TrainingRun
from training.runs.estimates.capacity import Load, estimate_load, find_shortages
from training.runs.estimates.needs import (
    ModelShape,
    estimate_run,
    find_in_hub_cache,
    read_shape,
    shape_of_name,
    shape_of_tiny,
)
from training.runs.services import RunPlan, check_plan, start_run


def write_model(folder: Path, *, hidden: int = 4096, layers: int = 32, vocabulary: int = 32_000) -> Path:
    """A Llama's config and the header of its weights: the weights themselves nobody reads."""
    wide = 4 * hidden
    config = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "vocab_size": vocabulary,
    }
    shapes: dict[str, list[int]] = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden]}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        shapes |= {f"{at}.self_attn.{name}_proj.weight": [hidden, hidden] for name in "qkvo"}
        shapes |= {f"{at}.mlp.{name}_proj.weight": [wide, hidden] for name in ("gate", "up")}
        shapes |= {f"{at}.mlp.down_proj.weight": [hidden, wide], f"{at}.input_layernorm.weight": [hidden]}
    header = json.dumps({name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}).encode()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def spec(**fields: Any) -> RunSpec:
    given = {"run_id": "x", "method": "posterior", "base": {"path": "/base"}, "data": {"train": "rows"}}
    return RunSpec.model_validate(given | fields)


def test_a_base_is_measured_by_the_headers_of_its_weights(tmp_path: Path) -> None:
    shape = read_shape(write_model(tmp_path / "llama"))
    assert shape is not None
    assert shape.body == 32 * (4 * 4096**2 + 3 * 4 * 4096**2)
    assert shape.parameters == shape.body + 32_000 * 4096 + 33 * 4096
    assert shape.adapted == 32 * (4 * 2 * 4096 + 3 * 5 * 4096) and shape.attention == 32 * 4 * 2 * 4096
    assert shape.query_value == shape.attention / 2
    assert read_shape(tmp_path) is None
    (tmp_path / "llama" / "model.safetensors").write_bytes(b"\xff" * 32)
    assert read_shape(tmp_path / "llama") is None


def test_a_name_or_a_downloaded_folder_tells_the_size(tmp_path: Path) -> None:
    sizes = {"Qwen/Qwen2.5-0.5B-Instruct": 0.5, "meta-llama/Llama-3.1-8B-Instruct": 8, "HF/SmolLM2-135M": 0.135}
    for name, billions in sizes.items():
        guessed = shape_of_name(name)
        assert guessed is not None and not guessed.exact and guessed.parameters == pytest.approx(billions * 1e9)
    assert shape_of_name("some/model") is None and shape_of_name("a/phi-2") is None
    snapshot = tmp_path / "models--a--b" / "snapshots" / "abc"
    write_model(snapshot, hidden=64, layers=1, vocabulary=300)
    (tmp_path / "models--a--b" / "refs").mkdir()
    (tmp_path / "models--a--b" / "refs" / "main").write_text("abc")
    assert find_in_hub_cache("a/b", [tmp_path / "none", tmp_path]) == snapshot
    assert find_in_hub_cache("a/c", [tmp_path]) is None


@pytest.mark.django_db
def test_memory_grows_with_what_is_trained_and_shrinks_with_what_is_saved(tmp_path: Path) -> None:
    folder = str(write_model(tmp_path / "llama"))
    load = Load(None, folder, rows=1000, heldout=0)
    machine = Machine("a CPU", 8, 16, 256 * GB)
    on_gpu = Machine("a CPU", 8, 16, 64 * GB, (), (Gpu("cuda", "a GPU", 24 * GB, bf16=True),))

    def needs(on: Machine = machine, **fields: Any) -> int:
        found = estimate_load(spec(**fields), load, on)
        assert found is not None and found.exact
        return found.memory_bytes

    shape = read_shape(Path(folder))
    assert shape is not None
    full = estimate_load(spec(), load, machine)
    assert full is not None and full.parts["gradients"] == 4 * shape.parameters
    assert full.parts["optimiser"] == 8 * shape.parameters
    lora = {"lora": {"r": 8}}
    assert needs(**lora) < needs() / 2
    assert needs(**lora, gradient_checkpointing=True) < needs(**lora)
    assert needs(**lora, optimiser={"batch_size": 1, "accumulate": 64}) < needs(**lora)
    assert needs(on_gpu, **lora, quantisation="4bit") < needs(on_gpu, **lora) < needs(**lora)
    adapter = estimate_load(spec(**lora), load, machine)
    assert adapter is not None and adapter.trained == 8 * shape.adapted
    assert adapter.disk_bytes < full.disk_bytes / 20
    epochs = estimate_load(spec(**lora, epoch_checkpoints=True), load, machine)
    assert epochs is not None and epochs.disk_bytes == adapter.disk_bytes + 3 * 4 * adapter.trained


@pytest.mark.parametrize(
    ("method", "batch", "gib"),
    [
        ("pretrain", 64, 14.1),
        ("posterior", 64, 6.5),
        ("posterior", 256, 21.2),
        ("reward_weighted", 64, 6.5),
        ("grpo", 64, 4.1),
        ("ppo", 64, 4.1),
    ],
)
def test_memory_is_a_little_above_what_was_measured_on_a_gpu(method: str, batch: int, gib: float) -> None:
    """Of docs/results.md, "On a GPU": Qwen2.5-0.5B's shape, LoRA of rank 16 but for pretrain."""
    hidden, layers, wide, keys, vocabulary = 896, 24, 4864, 128, 151_936
    attention = [(hidden, hidden), (keys, hidden), (keys, hidden), (hidden, hidden)]
    matrices = [*attention, (wide, hidden), (wide, hidden), (hidden, wide)]
    body = layers * sum(rows * columns for rows, columns in matrices)
    shape = ModelShape(
        parameters=body + vocabulary * hidden,
        body=body,
        hidden=hidden,
        layers=layers,
        heads=14,
        vocabulary=vocabulary,
        adapted=layers * sum(map(sum, matrices)),
        attention=layers * sum(map(sum, attention)),
        query_value=layers * sum(map(sum, attention[:2])),
    )
    fields: dict[str, Any] = {"method": method, "optimiser": {"batch_size": batch}}
    if method != "pretrain":
        fields["lora"] = {"r": 16, "alpha": 32}
    if method in ("grpo", "ppo"):
        fields["reward"] = [{"name": "matches_answer"}]
    found = estimate_run(shape, spec(**fields), rows=1, heldout=0, device="cuda", cores=1, rate=None)
    assert 1.0 <= found.memory_bytes / (gib * 2**30) <= 1.15


@pytest.mark.django_db
def test_what_cannot_fit_is_told_with_figures_and_what_would(tmp_path: Path) -> None:
    load = Load(None, str(write_model(tmp_path / "llama")), rows=1000, heldout=0)

    def shortage(given: RunSpec, machine: Machine) -> list[Any]:
        """Of memory; the disk is this machine's own."""
        estimate = estimate_load(given, load, machine)
        assert estimate is not None
        return [fault for fault in find_shortages(given, load, estimate, machine) if fault.field == "memory"]

    (fault,) = shortage(spec(), Machine("a CPU", 8, 16, 64 * GB))
    assert "8.72 billion weights" in fault.reason and "there are only 64.0 GB" in fault.reason
    assert fault.expected.startswith("lora, batch_size 1 with accumulate 64")
    assert shortage(spec(lora={}, optimiser={"batch_size": 1}), Machine("a CPU", 8, 16, 64 * GB)) == []
    (hopeless,) = shortage(spec(), Machine("a CPU", 8, 16, 8 * GB))
    assert hopeless.expected == "a smaller base"
    # A GPU that is full makes the engine take smaller batches: no reason to refuse.
    gpu = Gpu("cuda", "a GPU", 24 * GB, bf16=True)
    assert shortage(spec(lora={}, optimiser={"batch_size": 4096}), Machine("a CPU", 8, 16, 64 * GB, (), (gpu,))) == []


@pytest.mark.django_db
def test_time_follows_earlier_runs_of_alike_bases() -> None:
    tiny = spec(method="pretrain", base={"tiny": {}})
    load = Load(None, "tiny", rows=1000, heldout=100)
    machine = Machine("a CPU", 2, 2, 16 * GB)
    rough = estimate_load(tiny, load, machine)
    assert rough is not None and rough.measured_runs == 0 and rough.seconds > 5
    earlier = rough.as_plain()
    for seconds in (100.0, 200.0, 300.0):
        run = TrainingRunFactory(state="queued", estimate=earlier, job=JobFactory(attempts=1))
        TrainingRun.objects.filter(id=run.id).update(
            state="succeeded",
            metrics={"seconds": seconds},
            finished_at=run.created_at,
            produced_version=ModelVersionFactory(),
        )
    measured = estimate_load(tiny, load, machine)
    assert measured is not None and measured.measured_runs == 3
    assert measured.seconds == pytest.approx(200 + 5, rel=0.02)
    large = estimate_load(spec(method="pretrain", base={"tiny": {"hidden": 1024}}), load, machine)
    assert large is not None and large.measured_runs == 0
    shape = shape_of_tiny(TinyShape())
    assert measured.parameters == shape.parameters


@pytest.mark.django_db
def test_a_run_that_cannot_fit_is_refused_before_it_is_queued(
    agent: Any, by: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "huge", hidden=16_384, layers=400)
    settings.BASE_MODELS = [str(tmp_path)]
    dataset = DatasetSnapshotFactory(agent=agent, rows=10)
    with pytest.raises(InvalidRun) as refused:
        start_run(by=by, agent=agent, plan=RunPlan("pretrain", dataset, base_model=str(folder)))
    assert {fault.field for fault in refused.value.faults} >= {"memory"}
    # Disk space that runs under way were promised is not there for another.
    TrainingRunFactory(agent=agent, estimate={"disk_bytes": 10**18})
    with pytest.raises(InvalidRun) as refused:
        check_plan(agent, RunPlan("pretrain", dataset, base_model="tiny"))
    (fault,) = refused.value.faults
    assert fault.field == "disk" and "1,000,000,000.0 GB are for runs under way" in fault.reason
    assert TrainingRun.objects.count() == 1 and not Job.objects.exists()


@pytest.mark.django_db
def test_the_estimate_is_in_the_dry_run_the_form_the_run_and_its_events(
    agent: Any, api: Any, admin: Any, workspace: Any, page_client: Any
) -> None:
    dataset = DatasetSnapshotFactory(agent=agent, rows=12)
    body = {"agent": agent.slug, "method": "pretrain", "dataset": str(dataset.id), "base_model": "tiny"}
    client = api("admin", "export:read")
    dry = client.post("runs", body | {"dry_run": True})
    told = dry.json()["estimate"]
    assert dry.status_code == 200 and told["parameters"] == shape_of_tiny(TinyShape()).parameters
    assert told["memory_bytes"] == sum(told["parts"].values()) and told["seconds"] > 0
    assert client.post("runs", body | {"dry_run": True, "settings": {"seed": -1}}).status_code == 400
    path = reverse("pages:run-start", args=[workspace.slug])
    form = {"agent": str(agent.id), "method": "pretrain", "dataset": str(dataset.id), "base": "tiny", "check": "1"}
    shown = page_client(admin).post(path, form)
    assert shown.status_code == 200 and shown.context["estimate"].memory_bytes == told["memory_bytes"]
    assert "This machine" in shown.content.decode() and "Check and estimate" in shown.content.decode()
    assert page_client(admin).post(path, form | {"epochs": "0"}).status_code == 400
    assert not TrainingRun.objects.exists() and not Job.objects.exists()
    run = client.post("runs", body).json()
    assert run["estimate"] == told
    assert RunEvent.objects.get(run_id=run["id"]).details["estimate"] == told
