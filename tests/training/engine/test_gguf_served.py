"""A trained model as GGUF in llama.cpp's own OpenAI-compatible server, beside the safetensors it was written of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from models_registry.backends.endpoint import Endpoint, ScoreItem
from models_registry.backends.openai import OpenAIClient, call
from models_registry.backends.outbound import close_clients
from models_registry.backends.prompts import Prompt
from models_registry.backends.token_cuts import cut_prompt
from models_registry.errors import BackendRefused
from tools.llama_server import LlamaServer
from training.engine.export.gguf import write_gguf
from training.engine.models.loading import load_tokenizer
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.types import Prompt as RowPrompt

pytestmark = pytest.mark.slow
ROWS = 15


@pytest.fixture(scope="module")
def model(tiny_run: Path) -> Path:
    return tiny_run / "attempts" / "1" / "model"


@pytest.fixture(scope="module")
def endpoint(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    server = LlamaServer(write_gguf(model, tmp_path_factory.mktemp("gguf") / "filer.gguf", "Q8_0").path, "filer")
    yield Endpoint("llama.cpp", "openai", server.url, capabilities=frozenset({"grammar"}))
    close_clients()
    server.stop()


def test_the_served_file_decides_as_the_safetensors_did(tiny_run: Path, endpoint: Endpoint) -> None:
    rows = [json.loads(line) for line in (tiny_run / "data" / "heldout.jsonl").read_text().splitlines()]
    lines = (tiny_run / "attempts" / "1" / "predictions.jsonl").read_text().splitlines()
    decided = {line["id"]: line["action"] for line in map(json.loads, lines)}
    items = [ScoreItem("filer", Prompt(row["prompt"]), tuple(row["options"]), 512) for row in rows[:ROWS]]
    scores = [OpenAIClient().score(endpoint, [item], seconds=60)[0] for item in items]
    answers = {}
    for row, score in zip(rows, scores, strict=False):
        assert score.probabilities is not None
        answers[row["id"]] = row["options"][score.probabilities.index(1.0)]
    assert answers == {row["id"]: decided[row["id"]] for row in rows[:ROWS]}
    assert len(set(answers.values())) > 1


TEXTS = (
    "travel or work? " + "invoice " * 60 + " so travel or work?",
    "Überweisung — 5 € 😀 " * 20 + "ende",
    "one\n\ntwo\tthree  four " * 20,
    "a" * 400,
    "short",
)


@pytest.mark.parametrize("system", ["", "you file the notes"])
@pytest.mark.parametrize("most", [24, 25, 48])
def test_it_reads_a_long_prompt_as_the_model_server_does(
    model: Path, endpoint: Endpoint, most: int, system: str
) -> None:
    encoder = PromptEncoder(load_tokenizer(model), most)
    prompts = [RowPrompt(text, system) for text in TEXTS]
    items = [ScoreItem("filer", Prompt(text, system), ("travel", "finance"), most) for text in TEXTS]
    cut = [cut_prompt(call, endpoint, item, 60) for item in items]
    assert encoder.count_cut(prompts) == len(TEXTS) - 1
    assert [one.text for one in cut] == encoder.cut(prompts)
    read = [score.tokens_in for score in OpenAIClient().score(endpoint, items, seconds=60)]
    assert read == [len(ids) for ids in encoder.encode(prompts)]


def test_a_system_prompt_that_leaves_no_room_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(BackendRefused, match="leaves fewer than 4 of max_prompt_tokens 24 for the prompt"):
        cut_prompt(call, endpoint, ScoreItem("filer", Prompt("a note", "you file the notes " * 20), (), 24), 60)
