"""Tokens are estimated by the last answer, but never more of them than a text has bytes."""

from types import SimpleNamespace
from uuid import uuid4

from models_registry.backends.token_estimates import Sizes, estimate_tokens, learn_ratio


def test_a_picture_says_nothing_of_the_texts_that_follow():
    endpoint = SimpleNamespace(backend=uuid4(), url="http://127.0.0.1")
    learn_ratio(endpoint, "gpt", Sizes(200, 40), 1_500, 10)  # its tokens count, and its bytes do not
    assert estimate_tokens(endpoint, "gpt", Sizes(40_000, 400)) == (40_000, 100)
    learn_ratio(endpoint, "gpt", Sizes(200, 40), 40, 10)
    assert estimate_tokens(endpoint, "gpt", Sizes(40_000, 400)) == (8_000, 100)
