"""Saving, hashing and merging."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Literal

import pytest
import torch
from engine_world import World, engine, labelled, logged, write_run

from training.engine import measure
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import (
    ADAPTER,
    Loaded,
    attach_adapter,
    build_tiny,
    build_tokenizer,
    load_for_training,
    load_model,
    load_tokenizer,
    save,
    trainable_parameters,
    weights_sha256,
)
from training.engine.models.option_tokens import MANY_OPTIONS
from training.engine.spec.run_spec import ModelSource, TinyShape
from training.engine.spec.settings import Lora
from training.runs.estimates.needs import lora_parameters, read_shape

CPU = torch.device("cpu")


def test_the_hash_is_of_the_weights_not_of_the_files(base_folder: Path, tmp_path: Path) -> None:
    model = load_model(base_folder, CPU)
    model.save_pretrained(tmp_path / "sharded", max_shard_size="300KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert weights_sha256(tmp_path / "sharded") == weights_sha256(base_folder)
    with torch.no_grad():
        model.model.norm.weight[0] += 1e-4
    save(Loaded(model, load_tokenizer(base_folder)), tmp_path / "changed")
    assert weights_sha256(tmp_path / "changed") != weights_sha256(base_folder)


def test_pickled_weights_are_not_loaded(base_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(base_folder, folder)
    weights = load_model(base_folder, CPU).state_dict()
    for path in folder.glob("*.safetensors"):
        path.unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        load_model(folder, CPU)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    torch.save({}, adapter / "adapter_model.bin")
    with pytest.raises(FileNotFoundError, match="holds no adapter_model"):
        attach_adapter(load_model(base_folder, CPU), adapter, ADAPTER)


def test_frozen_embeddings_stay_and_the_rest_is_trained(base_folder: Path) -> None:
    model = load_for_training(ModelSource(path=str(base_folder)), None, CPU, freeze_embeddings=True).model
    trained, every = trainable_parameters(model), dict(model.named_parameters())
    assert set(every) - set(trained) == {"model.embed_tokens.weight"}


@pytest.mark.parametrize(("targets", "adapted"), [("attention", "qkvo"), ("query-value", "qv")])
def test_an_adapter_is_on_the_matrices_that_are_asked_for(
    base_folder: Path, targets: Literal["attention", "query-value"], adapted: str
) -> None:
    lora = Lora(r=4, dropout=0.1, targets=targets)
    model = load_for_training(ModelSource(path=str(base_folder)), lora, CPU).model
    trained = trainable_parameters(model)
    assert {name.split("_proj")[0][-1] for name in trained} == set(adapted)
    assert {module.p for name, module in model.named_modules() if name.endswith(f"dropout.{ADAPTER}")} == {0.1}
    shape = read_shape(base_folder)
    assert shape is not None and lora_parameters(shape, lora) == sum(one.numel() for one in trained.values())


def test_the_rates_of_a_base_are_measured_on_its_texts(
    base_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"run_id": "x", "method": "posterior", "base": {"path": str(base_folder)}, "data": {"train": "rows"}}
    spec |= {"optimiser": {"batch_size": 4}, "threads": 1}
    before = weights_sha256(base_folder)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"spec": spec, "rows": labelled(12, 1)})))
    assert measure.main() == 0
    rates = json.loads(capsys.readouterr().out)
    assert set(rates) == {"trained", "scored", "loading", "trained_cpu", "scored_cpu"} and min(rates.values()) > 0
    assert weights_sha256(base_folder) == before


@pytest.mark.parametrize("path", ["relative", "../up", "a/b/c", "owner/../x", ".hidden/x"])
def test_a_source_is_a_hub_id_or_an_absolute_folder(path: str) -> None:
    if path == "relative":  # a hub id of old, without an owner
        assert ModelSource(path=path).path == path
    else:
        with pytest.raises(ValueError, match="absolute folder"):
            ModelSource(path=path)


def test_an_adapters_folder_names_no_path_of_this_machine(tmp_path: Path, world: World) -> None:
    log = logged(world.stream[:64], world.probabilities[:64], 1)
    spec = {
        "method": "reward_weighted",
        "base": {"path": str(world.base)},
        "lora": {"r": 2},
        "optimiser": {"epochs": 1},
    }
    run = write_run(tmp_path / "run", spec, train=log)
    assert engine(run) == 0
    folder = run / "attempts" / "1" / "adapter"
    assert not json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert all(str(tmp_path).encode() not in file.read_bytes() for file in folder.iterdir())
    assert (folder / "chat_template.jinja").exists()


@pytest.mark.parametrize(("count", "nodes"), [(MANY_OPTIONS, 1), (MANY_OPTIONS + 1, 0)])
def test_very_many_options_are_one_token_each_and_stay_so(tmp_path: Path, count: int, nodes: int) -> None:
    """The trie behind the prompt then has no node to feed: they all part at their first token."""
    options = [f"area_{n}_of_work" for n in range(count)]
    tokenizer = build_tokenizer(["the area_1_of_work is not for area_1_of_workers"] * 3, options, 320)
    save(Loaded(build_tiny(TinyShape(hidden=16, heads=2, key_value_heads=1), tokenizer), tokenizer), tmp_path / "model")
    again = load_tokenizer(tmp_path / "model")
    scorer = ActionScorer(again, 32)
    assert min(scorer.trie(options).size, 1) == nodes
    lengths = {len(ids) for ids in scorer.answer_ids(options)}
    assert (lengths == {2}) == (nodes == 0)
    # A longer word that begins like an option is no option, and what was cut up is put together again.
    ids = again("the area_1_of_work is not for area_1_of_workers")["input_ids"]
    assert again.decode(ids) == "the area_1_of_work is not for area_1_of_workers"
