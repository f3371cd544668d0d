"""Exports: files that their own runtime loads, compared with the version that they were made of."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_world import World, engine, logged, read_result, write_run

from training.engine.__main__ import BadRun, read_run
from training.engine.export import lora
from training.engine.export.hard_texts import HARD_TEXTS
from training.engine.export.parity import CLEAR, Probe, ask, compare, divergence
from training.engine.export.runtimes import CPU, TorchRuntime
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import ADAPTER, attach_adapter, load_model, load_tokenizer, weights_sha256
from training.engine.rows.types import Prompt
from training.engine.spec.export_formats import (
    BOUNDS,
    GB,
    QUANTISATIONS,
    Format,
    find_bound,
    find_missing_packages,
    find_shape_faults,
    hash_options,
    recommend_quantisation,
)
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.run_spec import ModelSource


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, world: World) -> ModelSource:
    """The base under an adapter that changes its decisions."""
    folder = tmp_path_factory.mktemp("adapted") / "run"
    log = logged(world.stream[:200], world.probabilities[:200], 1)
    optimiser = {"learning_rate": 5e-3, "epochs": 1}
    spec = {"method": "posterior", "base": {"path": str(world.base)}, "lora": {}, "optimiser": optimiser}
    assert engine(write_run(folder, spec, train=log)) == 0
    return ModelSource(path=str(world.base), adapter=str(folder / "attempts/1/adapter"))


def run_export(folder: Path, source: ModelSource, plan: dict[str, Any], **data: Any) -> tuple[Path, dict[str, Any]]:
    run = write_run(folder, {"method": "export", "base": source.model_dump(), "export": plan}, **data)
    assert engine(run) == 0
    result = read_result(run)
    assert (result["output"], result["steps"]) == ("export", 0)
    return run / "attempts/1/export", result["export"]


def test_merged_weights_decide_as_base_and_adapter_together(tmp_path: Path, world: World, source: ModelSource) -> None:
    rows = world.heldout[:60]
    folder, report = run_export(tmp_path / "run", source, {"format": "merged"}, heldout=rows)
    parity = report["parity"]
    assert (parity["prompts"], parity["rows"], parity["decisions"]) == ("held_out", 60, 60)
    assert (parity["equal_decisions"], parity["top1"], parity["bound"], parity["refusals"]) == (1, 1, 0.999, [])
    assert parity["kl_largest"] < 1e-9 and parity["tokens_differ_count"] == 0
    assert parity["texts"] > len(HARD_TEXTS) + 20
    assert parity["version"] == pytest.approx(parity["export"], abs=1e-5)
    assert report["bytes"] == sum(path.stat().st_size for path in folder.iterdir()) == sum(report["files"].values())

    ids = torch.tensor([load_tokenizer(folder)("please check the invoice")["input_ids"]])
    with torch.no_grad():
        alone = load_model(world.base, CPU)(input_ids=ids).logits
        whole = load_model(folder, CPU)(input_ids=ids).logits
        together = attach_adapter(load_model(world.base, CPU), str(source.adapter), ADAPTER)(input_ids=ids).logits
    assert torch.allclose(whole, together, atol=1e-4) and not torch.allclose(whole, alone, atol=1e-2)


def test_an_adapter_goes_out_as_peft_loads_it(tmp_path: Path, world: World, source: ModelSource) -> None:
    from peft import AutoPeftModelForCausalLM

    plan = ExportPlan(format=Format.LORA, base_name=str(world.base))
    lora.write(source, tmp_path, plan)
    loaded = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path)).eval()  # finds its base by the name in it
    ids = [1, 5, 9, 30]
    with torch.no_grad():
        by_peft = loaded(input_ids=torch.tensor([ids])).logits[0].numpy()
    wanted = TorchRuntime(str(source.path), source.adapter).logits(ids)
    # peft makes room for a token that Qwen2's tokenizer adds to those of the model.
    assert np.allclose(by_peft[:, : wanted.shape[1]], wanted, atol=1e-5)
    assert weights_sha256(tmp_path) == weights_sha256(Path(str(source.adapter)))
    assert load_tokenizer(tmp_path).chat_template == load_tokenizer(world.base).chat_template


def test_decisions_of_a_runtime_are_those_of_the_scorer(world: World) -> None:
    """`travel` and `travel plans`, `work` and `work at home` part behind their first token."""
    rows = world.heldout[:12]
    runtime = TorchRuntime(world.base)
    scorer = ActionScorer(runtime.tokenizer, 32)
    prompts = scorer.encode([Prompt(row["prompt"]) for row in rows])
    options = [row["options"] for row in rows]
    with torch.no_grad():
        wanted = scorer.log_probabilities(load_model(world.base, CPU, torch.float32), prompts, options).numpy()
    asked = zip(prompts, options, strict=True)
    found = [ask(runtime, Probe(ids, len(ids) - 1, scorer.answer_ids(one))) for ids, one in asked]
    assert np.allclose([reply.log_p for reply in found], wanted, atol=1e-4)
    assert found[0].logits.shape == (1, 500)


class Changed:
    """A runtime that adds `noise` to every logit, and cuts the text `odd` into another token."""

    name = "changed"

    def __init__(self, inner: TorchRuntime, noise: float = 0.0, odd: str = "") -> None:
        self.inner, self.noise, self.odd = inner, noise, odd
        self.draw = np.random.default_rng(0)

    def token_ids(self, text: str) -> list[int]:
        return [7] if text == self.odd else self.inner.token_ids(text)

    def unlike_reason(self, text: str) -> str | None:
        return "no word for it" if text == "b c" else None

    def logits(self, ids: Any) -> Any:
        found = self.inner.logits(ids)
        return found + self.noise * self.draw.standard_normal(found.shape)


@pytest.mark.parametrize(
    ("changed", "quantisation", "refusals"),
    [
        ({"noise": 3.0}, None, ["decisions are the version's"]),
        ({"noise": 3.0}, "Q2_K", []),  # has no bound: reported
        ({"odd": "a"}, "Q2_K", ["1 of 2 hard texts have other tokens, such as 'a'"]),
        ({"odd": "b c"}, "Q2_K", []),  # the format cannot do otherwise: reported
        ({"noise": math.nan}, "Q2_K", ["not numbers"]),
        ({}, None, []),
    ],
)
def test_an_export_that_differs_is_refused(
    world: World, changed: dict[str, Any], quantisation: Any, refusals: list[str]
) -> None:
    version = TorchRuntime(world.base)
    plan = ExportPlan(format=Format.GGUF if quantisation else Format.MERGED, quantisation=quantisation)
    probes = [Probe(version.token_ids(row["prompt"]), 0) for row in world.heldout[:20]]
    with np.errstate(invalid="ignore"):
        told = compare(
            version, Changed(version, **changed), probes=probes, held_out=False, texts=["a", "b c"], plan=plan
        )
    assert len(told.refusals) == len(refusals)
    assert all(part in said for part, said in zip(refusals, told.refusals, strict=True))
    assert told.limits == ({"no word for it": 1} if changed.get("odd") == "b c" else {})
    ahead = [np.diff(np.sort(version.logits(one.ids), axis=-1)[:, -2:]) >= CLEAR for one in probes]
    assert told.prompts == "fallback" and told.positions == sum(len(one.ids) for one in probes)
    assert 0 < told.decisions == sum(int(clear.sum()) for clear in ahead) < told.positions
    assert (told.equal_decisions == 1.0) == (not changed.get("noise"))


class Fixed(Changed):
    """A runtime with these logits for every text."""

    def __init__(self, *logits: list[float]) -> None:
        self.found = np.array(logits, dtype=np.float32)

    def token_ids(self, text: str) -> list[int]:
        return [1, 2]

    def logits(self, ids: Any) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("version", "export", "decisions", "equal", "top1"),
    [
        ([[0.0, 0.1], [0.0, 0.3]], [[0.1, 0.0], [0.0, 0.3]], 1, 1.0, 0.5),  # a near tie turns: no decision
        ([[0.0, 0.1], [0.0, 0.3]], [[0.0, 0.1], [0.3, 0.0]], 1, 0.0, 0.5),
        ([[0.0, 0.1], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]], 2, 0.5, 0.5),  # near ties alone all count
    ],
)
def test_a_place_of_a_text_is_a_decision_where_one_token_is_ahead(
    version: Any, export: Any, decisions: int, equal: float, top1: float
) -> None:
    plan = ExportPlan(format=Format.GGUF, quantisation="Q8_0")
    told = compare(Fixed(*version), Fixed(*export), probes=[Probe([1, 2], 0)], held_out=True, texts=["a"], plan=plan)
    assert (told.decisions, told.equal_decisions, told.top1) == (decisions, equal, top1)
    assert bool(told.refusals) == (equal < 0.99)


def test_divergence_is_that_of_the_definition() -> None:
    p, q = np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 0.5, 0.25]])
    logits = np.log(p).astype(np.float32), np.log(q).astype(np.float32)
    assert divergence(*logits)[0] == pytest.approx(0.5 * math.log(2) - 0.25 * math.log(2), rel=1e-6)
    spare = np.concatenate([logits[1], [[9.0]]], axis=1).astype(np.float32)  # a row that no token has
    assert divergence(logits[0], spare)[0] == pytest.approx(divergence(*logits)[0])


def test_without_held_out_rows_the_fallback_is_compared(tmp_path: Path, world: World) -> None:
    _, report = run_export(tmp_path / "run", ModelSource(path=str(world.base)), {"format": "merged"})
    parity = report["parity"]
    assert (parity["prompts"], parity["rows"], parity["version"]) == ("fallback", len(HARD_TEXTS) + 40, None)
    assert 0 < parity["decisions"] <= parity["positions"] > 1000 and parity["equal_decisions"] == 1


def test_texts_are_compared_token_by_token(tmp_path: Path, world: World) -> None:
    rows = [{"id": str(n), "prompt": f"file {n}", "completion": "travel plans", "reward": 1.0} for n in range(5)]
    data = {"heldout": "data/heldout.jsonl", "heldout_rows": "text"}
    run = write_run(
        tmp_path / "run",
        {"method": "export", "base": {"path": str(world.base)}, "export": {"format": "merged"}, "data": data},
        heldout=rows,
    )
    assert engine(run) == 0
    parity = read_result(run)["export"]["parity"]
    places = len(load_tokenizer(world.base)("travel plans")["input_ids"]) + 1
    assert (parity["rows"], parity["decisions"], parity["equal_decisions"]) == (5, 5 * places, 1)


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        ({"format": "lora"}, "base.adapter: the model has no adapter to export as lora"),
        ({"format": "merged", "cache": True}, "export: cache: merged has none; leave it out"),
        ({"format": "onnx", "quantisation": "Q8_0"}, "export: quantisation: onnx is not quantised; leave it out"),
        ({"format": "ollama"}, "export.format: Input should be"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, base_folder: Path, plan: dict[str, Any], fault: str
) -> None:
    run = write_run(tmp_path / "run", {"method": "export", "base": {"path": str(base_folder)}, "export": plan})
    with pytest.raises(BadRun, match=fault.split(";")[0]):
        read_run(run)
    assert not (run / "attempts").exists()


def test_options_and_bounds() -> None:
    memory = {64: "Q8_0", 32: "Q8_0", 16: "Q6_K", 8: "Q4_K_M", 4: "Q3_K_M", 2: "Q2_K"}
    assert {size: recommend_quantisation(size * GB) for size in memory} == memory
    assert set(BOUNDS) == set(QUANTISATIONS)
    assert [find_bound("merged", None), find_bound("gguf", "Q6_K"), find_bound("gguf", "Q2_K")] == [0.999, 0.98, None]
    assert ExportPlan(format=Format.GGUF).options == {"quantisation": "Q4_K_M"}
    assert ExportPlan(format=Format.ONNX, cache=True).options == {"cache": True}
    assert hash_options({"a": 1, "b": 2}) == hash_options({"b": 2, "a": 1}) != hash_options({})
    assert find_shape_faults("merged", "mamba") == [] != find_shape_faults("onnx", "mamba")


def test_what_is_missing_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.engine.spec import export_formats

    monkeypatch.setattr(export_formats, "find_spec", lambda name: None)
    assert find_missing_packages("onnx") == [
        "onnx needs onnx, onnxscript, onnxruntime, which are not installed: "
        "run make exports, or install reckoner-ledger[export]"
    ]
    assert find_missing_packages("merged") == []


def test_llama_cpp_decides_as_the_version(tmp_path: Path, world: World, source: ModelSource) -> None:
    for package in ("gguf", "xllamacpp"):
        pytest.importorskip(package, reason="the extra `export` is not installed")
    rows, plan = world.heldout[:30], {"format": "gguf", "quantisation": "Q8_0"}
    folder, report = run_export(tmp_path / "run", source, plan, heldout=rows)
    parity, details = report["parity"], report["details"]
    assert parity["runtime"].startswith("llama.cpp ") and parity["refusals"] == []
    assert parity["equal_decisions"] >= 0.99 and 0 < parity["kl"] < 1e-3
    assert list(parity["limits"].values()) == [1]  # what is not in Unicode's NFC
    assert [path.name for path in folder.iterdir()] == ["model-Q8_0.gguf"]
    assert set(details["types"]) == {"F32", "Q8_0"} and details["fallbacks"] == {}


@pytest.mark.slow
def test_onnxruntime_decides_as_the_version(tmp_path: Path, world: World, source: ModelSource) -> None:
    """With a cache, which is read in two steps; `benchmarks.export_parity` writes every format."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="the extra `export` is not installed")
    rows = world.heldout[:40]
    folder, report = run_export(tmp_path / "run", source, {"format": "onnx", "cache": True}, heldout=rows)
    parity = report["parity"]
    assert parity["runtime"].startswith("onnxruntime ")
    assert (parity["equal_decisions"], parity["top1"], parity["refusals"]) == (1, 1, [])
    assert parity["kl_largest"] < 1e-6 and (folder / "model.onnx").stat().st_size > 100_000
