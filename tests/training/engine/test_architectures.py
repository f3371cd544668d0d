"""The table of architectures: its names are those of the models, and every cell is tried on a tiny one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_world import engine, labelled, read_result, write_run
from server_world import Process, item, put
from tiny_architectures import make_config, make_meta, write_architecture

from training.engine.export import gguf_export, merged, onnx
from training.engine.export.runtimes import TorchRuntime
from training.engine.models import targets
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import (
    attach_adapter,
    load_for_training,
    load_model,
    load_tokenizer,
    save,
    trainable_parameters,
)
from training.engine.models.targets import NoSuchTargets, find_matrices
from training.engine.spec.architectures import ARCHITECTURES, TARGETS, Targets
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.run_spec import ModelSource
from training.engine.spec.settings import Lora
from training.runs.estimates.needs import lora_parameters, read_shape

CPU = torch.device("cpu")
PROMPTS = ["a flight", "please book me a hotel in Berlin for two nights", "pay the invoice now"]
OPTIONS = ["book a flight", "book a hotel", "pay", "cancel the booking"]
"""Two begin alike, and so go through the model behind the prompt."""
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Architecture → a folder with a tiny model of it, made once."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            texts = [*PROMPTS, *OPTIONS] * 5
            made[name] = write_architecture(tmp_path_factory.mktemp(name), name, texts, OPTIONS)
        return made[name]

    return make


def usable(name: str) -> Targets:
    return ARCHITECTURES[name].matrices.usable()[0]


def write_adapter(base: Path, folder: Path, wanted: Targets) -> Path:
    """Its weights are random, and far from zero."""
    loaded = load_for_training(ModelSource(path=str(base)), Lora(r=2, targets=wanted), CPU)
    torch.manual_seed(1)
    for parameter in trainable_parameters(loaded.model).values():
        torch.nn.init.normal_(parameter, std=0.3)
    save(loaded, folder)
    return folder


@torch.inference_mode()
def score(base: Path, model: Any, prompts: list[str], names: list[str] | None = None) -> torch.Tensor:
    scorer = ActionScorer(load_tokenizer(base), 64)
    return scorer.log_probabilities(model, scorer.encode(prompts), [OPTIONS] * len(prompts), names).exp()


def test_the_names_in_the_table_are_those_of_the_models() -> None:
    for name, known in ARCHITECTURES.items():
        found = find_matrices(make_meta(make_config(name)))
        for wanted in TARGETS:
            expected = known.matrices.of(wanted)
            assert set(found.of(wanted) or ()) == set(expected or ()), (name, wanted)
            assert found.find_fault(wanted) == known.matrices.find_fault(wanted), (name, wanted)


@pytest.mark.slow
def test_the_program_looks_at_an_architecture_outside_the_table(tmp_path: Path) -> None:
    """By its config alone: the folder holds no weights."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gptj", "n_embd": 32, "n_layer": 1, "n_head": 2}))
    assert targets.main(str(tmp_path)) == {"error": "", "targets": dict.fromkeys(TARGETS, "")}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    assert "causal language model" in str(targets.main(str(tmp_path))["error"])


@pytest.mark.slow
@every_architecture
@pytest.mark.parametrize("wanted", TARGETS)
def test_an_adapter_is_on_the_matrices_of_the_table(folders: Any, name: str, wanted: Targets) -> None:
    base, matrices = folders(name), ARCHITECTURES[name].matrices
    source, lora = ModelSource(path=str(base)), Lora(r=2, targets=wanted)
    if (ends := matrices.of(wanted)) is None:
        with pytest.raises(NoSuchTargets, match=f"right would be {' or '.join(matrices.usable())}"):
            load_for_training(source, lora, CPU)
        return
    trained = trainable_parameters(load_for_training(source, lora, CPU).model)
    layers = {parameter.split(".lora_")[0] for parameter in trained}
    assert {end for end in ends if any(f".{layer}".endswith(f".{end}") for layer in layers)} == set(ends)
    assert all(layer.endswith(ends) for layer in layers)
    shape = read_shape(base)
    assert shape is not None and lora_parameters(shape, lora) == sum(one.numel() for one in trained.values())


@pytest.mark.slow
@every_architecture
def test_a_row_alone_has_the_scores_that_it_has_in_a_batch(
    folders: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the padding, and beside rows of the base and of another adapter."""
    base = folders(name)
    adapter = write_adapter(base, tmp_path / "adapter", usable(name))
    monkeypatch.setattr("training.engine.models.actions.WORTH_A_FORWARD", 10**9)  # one forward, whatever its padding
    plain, alone = load_model(base, CPU), attach_adapter(load_model(base, CPU), adapter, "alone")
    of_base = torch.cat([score(base, plain, [prompt]) for prompt in PROMPTS])
    of_adapter = torch.cat([score(base, alone, [prompt]) for prompt in PROMPTS])
    assert (of_base - of_adapter).abs().max() > 0.01
    torch.testing.assert_close(score(base, plain, PROMPTS), of_base, rtol=1e-4, atol=1e-5)
    mixed = attach_adapter(attach_adapter(load_model(base, CPU), adapter, "one"), adapter, "two")
    found = score(base, mixed, PROMPTS, ["one", "__base__", "two"])
    expected = torch.stack([of_adapter[0], of_base[1], of_adapter[2]])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    merged.write(ModelSource(path=str(base), adapter=str(adapter)), tmp_path / "merged", ExportPlan(format="merged"))
    whole = score(base, load_model(tmp_path / "merged", CPU), PROMPTS)
    torch.testing.assert_close(whole, of_adapter, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@every_architecture
@pytest.mark.parametrize("by_adapter", [False, True])
def test_it_is_trained_and_measured(folders: Any, name: str, by_adapter: bool, tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "method": "sft",
        "base": {"path": str(folders(name))},
        "optimiser": {"learning_rate": 0.01, "epochs": 3, "batch_size": 8},
        "evaluate": {"free_rows": 4},
    }
    if by_adapter:
        spec["lora"] = {"r": 4, "alpha": 16, "targets": usable(name)}
    run = write_run(tmp_path / "run", spec, train=labelled(32, 1), heldout=labelled(8, 2))
    assert engine(run) == 0
    scores = read_result(run)["scores"]
    assert scores["trained"] != scores["base"] and scores["trained"]["rows"] == 8


@pytest.fixture(scope="module")
def shelf(folders: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model server over every architecture with an adapter, and the digests of both."""
    root, adapters = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("adapters")
    digests = {}
    for name in ARCHITECTURES:
        base = put(root, folders(name), "model")
        adapter = write_adapter(folders(name), adapters / name, usable(name))
        digests[name] = base, put(root, adapter, "adapter", base=base), adapter
    process = Process(root)
    yield process, digests
    process.stop()


@pytest.mark.slow
@every_architecture
def test_the_model_server_answers_as_the_engine_does(folders: Any, shelf: Any, name: str) -> None:
    process, digests = shelf
    base, adapter, folder = digests[name]
    asked = [item(model, prompt, OPTIONS) for prompt in PROMPTS for model in (base, adapter)]
    answers = torch.tensor(process.probabilities(*asked)).unflatten(0, (len(PROMPTS), 2))
    plain = load_model(folders(name), CPU)
    torch.testing.assert_close(answers[:, 0], score(folders(name), plain, PROMPTS), rtol=1e-4, atol=1e-5)
    adapted = attach_adapter(plain, folder, "alone")
    torch.testing.assert_close(answers[:, 1], score(folders(name), adapted, PROMPTS), rtol=1e-4, atol=1e-5)
    said = process.chat(adapter, PROMPTS[0], max_tokens=4, temperature=0)
    assert said.status_code == 200, said.text
    tokenizer = load_tokenizer(folders(name))
    ids = torch.tensor([ActionScorer(tokenizer, 64).encode(PROMPTS[:1])[0]])
    with torch.inference_mode():
        written = adapted.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=4
        )
    expected = tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
    assert said.json()["choices"][0]["message"]["content"].strip() == expected.strip()


@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("name", [name for name, known in ARCHITECTURES.items() if known.onnx])
def test_onnxruntime_has_the_logits_of_transformers(folders: Any, name: str, cache: bool, tmp_path: Path) -> None:
    source, plan = ModelSource(path=str(folders(name))), ExportPlan(format="onnx", cache=cache)
    with torch.no_grad():
        onnx.write(source, tmp_path, plan)
    compare(onnx.load(source, tmp_path, plan), TorchRuntime(folders(name)), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, known in ARCHITECTURES.items() if known.gguf])
def test_llama_cpp_has_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    """Of a model with the layers that llama.cpp takes for granted, where a family's pattern is longer than two."""
    more: dict[str, Any] = {}
    if name == "gemma3_text":
        more = {"num_hidden_layers": 6, "layer_types": [*["sliding_attention"] * 5, "full_attention"]}
    base = write_architecture(tmp_path / "model", name, [*PROMPTS, *OPTIONS] * 5, OPTIONS, **more)
    source, plan = ModelSource(path=str(base)), ExportPlan(format="gguf", quantisation="F16")
    (tmp_path / "gguf").mkdir()
    gguf_export.write(source, tmp_path / "gguf", plan)
    compare(gguf_export.load(source, tmp_path / "gguf", plan), TorchRuntime(base), 0.05)


def compare(runtime: Any, reference: TorchRuntime, tolerance: float) -> None:
    text = " ".join(PROMPTS)
    ids = reference.token_ids(text)
    assert runtime.token_ids(text) == ids
    np.testing.assert_allclose(runtime.logits(ids), reference.logits(ids), atol=tolerance)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"method": "sft", "lora": {"targets": "query-value"}},
            "lora.targets: query-value cannot be adapted in GPT-2: queries, keys and values are one matrix",
        ),
        ({"method": "export", "export": {"format": "gguf"}}, "export.format: gguf takes llama, mistral, qwen2, qwen3"),
    ],
)
def test_the_engine_refuses_before_it_begins(
    fields: dict[str, Any], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By config.json alone, and without a trace of calls."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"model_type": "gpt2"}')
    data = {} if fields["method"] == "export" else {"train": labelled(4, 1)}
    run = write_run(tmp_path / "run", {"base": {"path": str(tmp_path / "base")}, **fields}, **data)
    assert engine(run) == 2
    assert any(fault in said for said in json.loads(capsys.readouterr().err)["faults"])
    assert not (run / "attempts").exists()
