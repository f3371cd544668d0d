"""A trained model as GGUF in llama.cpp's own OpenAI-compatible server, beside the safetensors it was written of."""

from __future__ import annotations

import json

import pytest

from models_registry.backends.endpoint import Endpoint, ScoreItem
from models_registry.backends.openai import OpenAIClient
from models_registry.prompts import Prompt
from tools.llama_server import LlamaServer
from training.engine.export.gguf import write_gguf

pytestmark = pytest.mark.slow
ROWS = 15


def test_the_served_file_decides_as_the_safetensors_did(tiny_run, tmp_path):
    written = write_gguf(tiny_run / "attempts" / "1" / "model", tmp_path / "filer.gguf", "Q8_0")
    rows = [json.loads(line) for line in (tiny_run / "data" / "heldout.jsonl").read_text().splitlines()]
    lines = (tiny_run / "attempts" / "1" / "predictions.jsonl").read_text().splitlines()
    decided = {line["id"]: line["action"] for line in map(json.loads, lines)}
    server = LlamaServer(written.path, "filer")
    endpoint = Endpoint("llama.cpp", "openai", server.url, capabilities=frozenset({"grammar"}))
    try:
        items = [ScoreItem("filer", Prompt(row["prompt"]), tuple(row["options"]), 512) for row in rows[:ROWS]]
        scores = [OpenAIClient().score(endpoint, [item], seconds=60)[0] for item in items]
    finally:
        server.stop()
    answers = {
        row["id"]: row["options"][score.probabilities.index(1.0)] for row, score in zip(rows, scores, strict=False)
    }
    assert answers == {row["id"]: decided[row["id"]] for row in rows[:ROWS]}
    assert len(set(answers.values())) > 1
