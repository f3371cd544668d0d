"""GGUF files: their types, their tokenizers, and what llama.cpp computes with them beside transformers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from safetensors.torch import load_file, save_file

from tools.exported_shapes import HARD, write_shape
from training.engine.export import gguf, llama_library
from training.engine.export.gguf import missing_parts, write_gguf
from training.engine.export.llama_runtime import LlamaError, LlamaRuntime
from training.engine.export.recipes import QUANTISATIONS, Layout, choose
from training.engine.export.vocabulary import unlike_reason
from training.engine.models.loading import load_model, load_tokenizer

BIG, SMALL = 512, 128
OF_LAYERS = {
    # The two layers' attn_v, ffn_down and attn_output, and the type of all else.
    "Q2_K": (("Q4_K", "Q3_K", "Q3_K"), ("Q4_K", "Q3_K", "Q3_K"), "Q2_K"),
    "Q3_K_M": (("Q5_K", "Q4_K", "Q4_K"), ("Q5_K", "Q4_K", "Q4_K"), "Q3_K"),
    "Q4_K_M": (("Q4_K", "Q4_K", "Q4_K"), ("Q6_K", "Q6_K", "Q4_K"), "Q4_K"),
    "Q5_K_M": (("Q5_K", "Q5_K", "Q5_K"), ("Q6_K", "Q6_K", "Q5_K"), "Q5_K"),
    "Q6_K": (("Q6_K", "Q6_K", "Q6_K"), ("Q6_K", "Q6_K", "Q6_K"), "Q6_K"),
    "Q8_0": (("Q8_0", "Q8_0", "Q8_0"), ("Q8_0", "Q8_0", "Q8_0"), "Q8_0"),
    "F16": (("F16", "F16", "F16"), ("F16", "F16", "F16"), "F16"),
}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Family and hidden size → a folder with such a model, made once."""
    made = {}

    def shape(family: str, hidden: int = SMALL) -> Path:
        if (family, hidden) not in made:
            made[family, hidden] = write_shape(tmp_path_factory.mktemp(family), family, hidden)
        return made[family, hidden]

    return shape


def expected_type(name: str, quantisation: str) -> str:
    first, second, usual = OF_LAYERS[quantisation]
    part = name.removesuffix(".weight").split(".")[-1]
    if name == "output.weight":
        return usual if usual in ("Q8_0", "F16") else "Q6_K"
    if part.endswith("norm") or part == "rope_freqs":
        return "F32"
    if name == "token_embd.weight":
        return usual
    layer = {"0": first, "1": second}[name.split(".")[1]]
    return dict(zip(("attn_v", "ffn_down", "attn_output"), layer, strict=True)).get(part, usual)


@pytest.mark.slow
def test_seven_quantisations_in_one_run_have_the_types_of_their_recipes(shapes, tmp_path):
    folder = shapes("llama", BIG)
    sizes = []
    for quantisation in QUANTISATIONS:
        target = tmp_path / f"{quantisation}.gguf"
        assert missing_parts(folder, target, quantisation) == []
        written = write_gguf(folder, target, quantisation)
        types = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(target).tensors}
        assert types == {name: expected_type(name, quantisation) for name in types} == written.types
        assert len(types) == 4 + 2 * 9
        assert written.fallbacks == {} and written.size == target.stat().st_size
        sizes.append(written.size)
    assert sizes == sorted(sizes)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.gguf" for name in QUANTISATIONS}


@pytest.mark.parametrize(
    ("quantisation", "fallback"),
    [("Q2_K", "Q4_0"), ("Q3_K_M", "Q4_0"), ("Q4_K_M", "Q5_0"), ("Q5_K_M", "Q5_1"), ("Q6_K", "Q8_0"), ("Q8_0", None)],
)
@pytest.mark.quick_cases(2)
def test_rows_that_are_no_whole_blocks_fall_back_and_are_named(shapes, tmp_path, quantisation, fallback):
    written = write_gguf(shapes("llama"), tmp_path / "small.gguf", quantisation)
    others = {name for name, kind in written.types.items() if kind != expected_type(name, quantisation)}
    assert set(written.fallbacks) == others
    assert len(others) == (0 if fallback is None else 2 + 2 * 7)
    if fallback is not None:
        assert written.types["blk.0.ffn_up.weight"] == fallback and written.types["output.weight"] == "Q8_0"
        reason = f"rows of 128 weights are not whole blocks of 256: {fallback}, not"
        assert written.fallbacks["blk.0.ffn_up.weight"].startswith(reason)


def test_more_bits_go_to_the_layers_that_the_rules_pick():
    layout = Layout(layers=32, heads=32, key_value_heads=8, tied=False)

    def better(quantisation: str, part: str, kind: str, of: Layout = layout) -> list[int]:
        names = {layer: f"blk.{layer}.{part}.weight" for layer in range(of.layers)}
        return [layer for layer, name in names.items() if choose(name, (8, 256), quantisation, of).type == kind]

    assert better("Q4_K_M", "ffn_down", "Q6_K") == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    assert better("Q3_K_M", "ffn_down", "Q5_K") == better("Q3_K_M", "attn_v", "Q5_K") == [0, 1]
    assert choose("token_embd.weight", (8, 256), "Q4_K_M", layout).type == "Q4_K"
    assert choose("token_embd.weight", (8, 256), "Q4_K_M", Layout(32, 32, 8, tied=True)).type == "Q6_K"
    assert choose("blk.0.attn_v.weight", (8, 256), "Q2_K", Layout(32, 32, 16, tied=False)).type == "Q3_K"
    assert better("Q2_K", "attn_v", "Q5_K", Layout(80, 64, 8, tied=False)) == list(range(80))
    assert choose("blk.0.ffn_up.weight", (8, 100), "Q4_K_M", layout).type == "F16"


@pytest.mark.parametrize("family", ["qwen2", "llama", "gemma3"])
@pytest.mark.quick_cases(1)
def test_llama_cpp_has_the_tokens_and_the_logits_of_transformers(shapes, tmp_path, family):
    folder, target = shapes(family), tmp_path / "model.gguf"
    write_gguf(folder, target, "F16")
    tokenizer = load_tokenizer(folder)
    model = load_model(folder, torch.device("cpu"), torch.float32)
    ids = tokenizer(HARD[-1] + HARD[5])["input_ids"]
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    with LlamaRuntime(target) as runtime:
        for text in HARD:
            assert unlike_reason(tokenizer, text) is None
            assert runtime.token_ids(text) == tokenizer(text, add_special_tokens=False)["input_ids"], text
        found = runtime.logits(ids)
        again = runtime.logits(ids[:7])
        with pytest.raises(ValueError, match="each from 0 to"):
            runtime.logits([runtime.vocabulary])
    assert found.shape == expected.shape == (len(ids), runtime.vocabulary)
    spread = expected.std()
    assert np.abs(found - expected).max() < 0.01 * spread
    assert np.abs(again - expected[:7]).max() < 0.01 * spread
    fields = GGUFReader(target).fields
    assert fields["tokenizer.chat_template"].contents() == tokenizer.chat_template
    for name in ("bos", "eos", "pad", "unknown"):
        place = getattr(tokenizer, f"{name[:3]}_token_id")
        field = fields.get(f"tokenizer.ggml.{name.replace('pad', 'padding')}_token_id")
        assert (place is None or place >= runtime.vocabulary) if field is None else field.contents() == place
    assert fields["tokenizer.ggml.add_bos_token"].contents() is (family != "qwen2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("option 3option 4", "whole words only"), ("re-option 3", None), ("A\u030a", "NFC"), ("\u00c5", None)],
)
def test_texts_that_gguf_has_other_tokens_for_are_known(shapes, tmp_path, text, reason):
    tokenizer = load_tokenizer(shapes("qwen2"))
    written = write_gguf(shapes("qwen2"), tmp_path / "model.gguf", "F16")
    found = unlike_reason(tokenizer, text)
    with LlamaRuntime(written.path) as runtime:
        same = runtime.token_ids(text) == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert same is (found is None) is (reason is None)
    assert reason is None or (reason in found and any(reason in note for note in written.notes))


def test_what_is_missing_is_said_before_any_work(shapes, tmp_path, monkeypatch):
    folder, target = tmp_path / "model", tmp_path / "out" / "model.gguf"
    shutil.copytree(shapes("qwen2"), folder)
    assert missing_parts(folder, target, "Q4_K_M") == []
    assert "Q9 is not a quantisation" in missing_parts(folder, target, "Q9")[0]
    config = json.loads((folder / "config.json").read_text())

    def faults(**changes: object) -> list[str]:
        (folder / "config.json").write_text(json.dumps(config | changes))
        return missing_parts(folder, target, "Q4_K_M")

    assert "OPTForCausalLM is not supported: " in faults(architectures=["OPTForCausalLM"])[0]
    [fault] = faults(use_sliding_window=True, sliding_window=8, max_window_layers=1)
    assert fault.startswith("use_sliding_window is not supported")
    assert "activation gelu" in faults(hidden_act="gelu")[0]
    assert faults() == []
    with monkeypatch.context() as patch:
        usage = shutil.disk_usage(tmp_path)
        patch.setattr(gguf.shutil, "disk_usage", lambda _: usage._replace(free=2**20))
        [fault] = missing_parts(folder, target, "Q4_K_M")
        assert "of disk at" in fault and "where 1 MiB are free" in fault
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "xllamacpp", None)
        llama_library.llama_library.cache_clear()
        [fault] = missing_parts(folder, target, "Q4_K_M")
        assert "not installed: pip install" in fault
        assert missing_parts(folder, target, "F16") == []  # numpy rounds to it
    llama_library.llama_library.cache_clear()
    (folder / "model.safetensors").unlink()
    assert "holds no model*.safetensors" in missing_parts(folder, target, "Q4_K_M")[0]
    assert not target.parent.exists()


def test_a_weight_that_is_no_number_ends_the_export_without_a_file(shapes, tmp_path):
    folder, target = tmp_path / "model", tmp_path / "out.gguf"
    shutil.copytree(shapes("qwen2"), folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][3, 5] = float("inf")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    target.write_bytes(b"before")
    with pytest.raises(ValueError, match=r"blk\.1\.ffn_up\.weight: not every weight is a finite number"):
        write_gguf(folder, target, "Q8_0")
    assert target.read_bytes() == b"before" and {path.name for path in tmp_path.iterdir()} == {"model", "out.gguf"}


def test_progress_counts_bytes_and_may_end_the_work(shapes, tmp_path):
    seen = []
    written = write_gguf(shapes("qwen2"), tmp_path / "a.gguf", "Q8_0", on_progress=lambda *step: seen.append(step))
    assert len(seen) == len(written.types) and seen[-1][0] == seen[-1][1] < written.size

    def stop(done: int, due: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_gguf(shapes("qwen2"), tmp_path / "b.gguf", "Q8_0", on_progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LlamaError, match=r"can't load .*model\.gguf: "):
        LlamaRuntime(path)
