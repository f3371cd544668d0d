"""Chats whose answer is one of several texts, decided by the scorer: one forward for all of them, and every text's
probability with it. Called by the model thread, for rows that came together under one base."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from training.engine.models.actions import OptionError
from training.engine.serving.chat import Row
from training.engine.serving.faults import Fault
from training.engine.serving.pool import LoadedBase
from training.engine.serving.sampling import NO_TOKEN, Sampling, draw_batch

FIELD = "structured_outputs.choice"


def choose(base: LoadedBase, rows: Sequence[Row]) -> None:
    """Ends every row with one of its request's choices, or with a fault.

    `log_p` is log P(choice | messages) of constrained decoding at temperature 1. The policy is that distribution at the
    row's temperature and top_p, taken over whole choices.
    """
    ready = [row for row in rows if _is_ready(base, row)]
    if not ready:
        return
    with torch.inference_mode():
        scored = base.scorer.log_probabilities(
            base.model,
            [row.prompt_ids for row in ready],
            [row.request.choices for row in ready],
            base.rows([row.request.model for row in ready]),
        )
    for row, log_p in zip(ready, scored.float(), strict=True):
        _end(base, row, log_p[None, : len(row.request.choices)])


def _is_ready(base: LoadedBase, row: Row) -> bool:
    choices = row.request.choices
    try:
        trie = base.scorer.trie(choices)
    except OptionError as error:
        row.fault = Fault("options_ambiguous", str(error), FIELD)
        return False
    longest = max(map(len, base.scorer.answer_ids(choices)))
    deepest = int(trie.depths.max()) + 1 if trie.size else 0
    if len(row.prompt_ids) + deepest > base.positions:
        limit = f"This model's maximum context length is {base.positions} tokens"
        row.fault = Fault("context_length_exceeded", f"{limit}; the messages leave no room for the choices", "messages")
    elif row.request.max_tokens is not None and row.request.max_tokens < longest:
        row.fault = Fault("invalid_request", f"the longest choice has {longest} tokens", "max_tokens")
    return row.fault is None


def _end(base: LoadedBase, row: Row, log_p: torch.Tensor) -> None:
    sampling = Sampling(row.request.sampling.temperature, row.request.sampling.top_p)
    drawn = draw_batch(log_p, [sampling], [row.generator])
    place = int(drawn.token)
    if place == NO_TOKEN:
        row.fault = Fault("artifact_unusable", f"model {row.request.model} gives no probabilities", "model")
        return
    row.tokens = base.scorer.answer_ids(row.request.choices)[place]
    row.log_p, row.policy_log_p = float(drawn.log_p), float(drawn.policy_log_p)
    row.text.write(row.request.choices[place])
    row.end("stop", tuple(log_p[0].double().softmax(0).tolist()))
