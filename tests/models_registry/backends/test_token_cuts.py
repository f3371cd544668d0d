"""Tokens as vLLM gives them, in the characters of a vocabulary. Real servers are asked in test_vllm and
test_gguf_served."""

import pytest

from models_registry.backends.endpoint import Endpoint, ScoreItem
from models_registry.backends.prompts import Prompt
from models_registry.backends.token_cuts import cut_prompt
from models_registry.errors import BackendUnavailable

ENDPOINT = Endpoint("vllm", "vllm", "http://vllm/v1", capabilities=frozenset({"grammar"}))
SENTENCE_PIECE = {
    "é one two 😀 three": ["▁é", "▁one", "▁two", "▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "▁three"],
    " ": ["▁"],
}
BYTE_LEVEL = {
    "é one two 😀 three": ["Ã©", "Ġone", "Ġtwo", "Ġ", "ð", "Ł", "ĺ", "Ģ", "Ġthree"],
    " ": ["Ġ"],
}


def cut(tokens, most):
    asked = []

    def call(endpoint, method, path, body, seconds):
        asked.append((endpoint.url, path, body["prompt"]))
        return {"token_strs": tokens[body["prompt"]]}

    [text, _] = tokens
    found = cut_prompt(call, ENDPOINT, ScoreItem("m", Prompt(text), ("a", "b"), most), 5)
    assert {(url, path) for url, path, _ in asked} == {("http://vllm", "/tokenize")}
    return found.text


@pytest.mark.parametrize("tokens", [SENTENCE_PIECE, BYTE_LEVEL], ids=["SentencePiece", "byte level"])
def test_the_middle_goes_by_whole_characters(tokens):
    assert cut(tokens, 4) == "é one three"
    assert cut(tokens, 6) == "é one two 😀 three"[:9] + " 😀 three"
    assert cut(tokens, 9) == "é one two 😀 three"


def test_tokens_that_do_not_spell_the_text_are_refused():
    with pytest.raises(BackendUnavailable, match="do not add up to its text"):
        cut({"é one two": ["▁é", "▁two"], " ": ["▁"]}, 4)
