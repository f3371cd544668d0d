"""Options as tokens of their own: one place behind a prompt then scores any number of them.

An option of several tokens puts a node of the trie behind every prompt for each of its beginnings that others share
(training.engine.models.actions): a few of 10 options, 30 of CLINC150's 150. A tokenizer that is made on the spot gets
its options as tokens; one that came with its model is given them here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from tokenizers import AddedToken
from torch import Tensor

MANY_OPTIONS = 32
"""More options than this are worth a token each."""


def as_tokens(options: Sequence[str]) -> list[AddedToken]:
    """What a tokenizer takes: words of their own, found as they are written."""
    return [AddedToken(option, single_word=True, normalized=False) for option in options]


@torch.no_grad()
def add_option_tokens(model: Any, tokenizer: Any, options: Collection[str]) -> int:
    """Of more than MANY_OPTIONS options, gives each that is several tokens one of its own, in the tokenizer and in the
    model's embeddings and output layer, where it begins as the mean of those several. Returns how many it added: none
    the second time."""
    if len(options) <= MANY_OPTIONS:
        return 0
    texts = sorted(options)
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    parts = {text: ids for text, ids in zip(texts, encoded, strict=True) if len(ids) > 1}
    if not parts:
        return 0
    tokenizer.add_tokens(as_tokens(list(parts)))
    embeddings = model.get_input_embeddings().weight
    # Some models have rows to spare beyond their tokenizer's tokens.
    if len(tokenizer) > len(embeddings):
        trains = embeddings.requires_grad
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        model.get_input_embeddings().weight.requires_grad_(trains)
    new = tokenizer.convert_tokens_to_ids(list(parts))
    for rows in _rows_by_token(model):
        rows[new] = torch.stack([rows[ids].mean(0) for ids in parts.values()])
    return len(parts)


def _rows_by_token(model: Any) -> list[Tensor]:
    """Whatever has a row for each token, once where it is shared."""
    layer = model.get_output_embeddings()
    found = [model.get_input_embeddings().weight, layer.weight, getattr(layer, "bias", None)]
    return list({rows.data_ptr(): rows for rows in found if rows is not None}.values())
