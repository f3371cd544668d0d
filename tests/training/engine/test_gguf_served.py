"""A trained model as GGUF in llama.cpp's own OpenAI-compatible server, beside the safetensors it was written of."""

from __future__ import annotations

import json

import httpx
import pytest

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
    try:
        answers = {}
        for row in rows[:ROWS]:
            body = {
                "model": "filer",
                "temperature": 0,
                "messages": [{"role": "user", "content": row["prompt"]}],
                # Held to the options as the engine holds its own answers: token by token, and nothing is added to the
                # prompt that the model has not learnt from.
                "grammar": "root ::= " + " | ".join(json.dumps(option) for option in row["options"]),
            }
            answer = httpx.post(f"{server.url}/chat/completions", json=body, timeout=60).raise_for_status().json()
            answers[row["id"]] = answer["choices"][0]["message"]["content"]
    finally:
        server.stop()
    assert answers == {row["id"]: decided[row["id"]] for row in rows[:ROWS]}
    assert len(set(answers.values())) > 1
