"""Answers that grow token by token, in a batch that rows join and leave between two tokens.

Every row has its own sampling settings, generator, constraint and adapter, so its text does not depend on the other
rows; base and adapters share the batch. The model thread calls `join` and `step`, and serves others in between. Exact
probabilities of options come from `scoring` and `choices`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from training.engine.models.actions import causal_of
from training.engine.models.adapters import adapters_by_row
from training.engine.serving.chat import Row, TokenScore, TokenScores
from training.engine.serving.faults import Fault
from training.engine.serving.pool import LoadedBase
from training.engine.serving.sampling import NO_TOKEN, draw_batch


@dataclass(slots=True)
class _Batch:
    """Rows with one cache. `mask` (B, T) is 1 where the cache holds a row's token and 0 where it is padding, which
    stands on the left; `pending` (B,) are the tokens to feed next."""

    rows: list[Row]
    mask: Tensor
    cache: Any
    pending: list[int]


class Generation:
    """The growing rows of one base. `rows` are those that have not ended."""

    def __init__(self, base: LoadedBase) -> None:
        self.base = base
        self._batches: list[_Batch] = []
        self._mergeable = _merges(base.model)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self._batches for row in batch.rows]

    def join(self, rows: Sequence[Row]) -> None:
        """Reads the rows' prompts, draws the first token of each, and lets them grow with the others from then on."""
        for some in [list(rows)] if self._mergeable else [[row] for row in rows]:
            batch = self._read_prompts(some)
            self._drop(batch, lambda row: row.ended)
            if not batch.rows:
                continue
            if self._mergeable and self._batches:
                self._batches[0] = _merge(self._batches[0], batch)
            else:
                self._batches.append(batch)

    def step(self) -> None:
        """One more token for every row."""
        for batch in self._batches:
            ids = torch.tensor(batch.pending, device=self.base.scorer.device)[:, None]
            batch.mask = torch.cat([batch.mask, batch.mask.new_ones(len(batch.rows), 1)], 1)
            logits, batch.cache = self._forward(batch.rows, ids, batch.mask, batch.cache)
            self._draw(batch.rows, logits)
            self.leave(lambda row: row.ended)
            batch.pending = [row.tokens[-1] for row in batch.rows]
        self._batches = [batch for batch in self._batches if batch.rows]

    def leave(self, goes: Callable[[Row], bool]) -> None:
        """Takes the rows out that `goes` is true of, and frees what they hold."""
        for batch in self._batches:
            self._drop(batch, goes)
        self._batches = [batch for batch in self._batches if batch.rows]

    def _drop(self, batch: _Batch, goes: Callable[[Row], bool]) -> None:
        kept = [place for place, row in enumerate(batch.rows) if not goes(row)]
        if len(kept) == len(batch.rows):
            return
        batch.rows = [batch.rows[place] for place in kept]
        batch.pending = [batch.pending[place] for place in kept]
        if batch.rows and self._mergeable:
            _select(batch, torch.tensor(kept, device=batch.mask.device))

    def _read_prompts(self, rows: list[Row]) -> _Batch:
        """Prefill. Equal prompts of one model are read once."""
        device = self.base.scorer.device
        keys = [(row.request.model, tuple(row.prompt_ids)) for row in rows]
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        read = [rows[place] for place in sorted(first.values())]
        of_row = [sorted(first.values()).index(first[key]) for key in keys]
        width = max(len(row.prompt_ids) for row in read)
        filler = self.base.tokenizer.pad_token_id
        ids = torch.tensor([[filler] * (width - len(r.prompt_ids)) + r.prompt_ids for r in read], device=device)
        mask = torch.tensor([[0] * (width - len(r.prompt_ids)) + [1] * len(r.prompt_ids) for r in read], device=device)
        logits, cache = self._forward(read, ids, mask, DynamicCache() if self._mergeable else None)
        batch = _Batch(rows, mask, cache, [])
        if len(read) < len(rows):
            places = torch.tensor(of_row, device=device)
            logits = logits[places]
            _select(batch, places)
        self._draw(rows, logits)
        batch.pending = [row.tokens[-1] if row.tokens else NO_TOKEN for row in rows]
        return batch

    def _forward(self, rows: Sequence[Row], ids: Tensor, mask: Tensor, cache: Any) -> tuple[Tensor, Any]:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        names = self.base.rows([row.request.model for row in rows])
        causal = causal_of(self.base.model)
        taken = signature(causal.forward).parameters
        kept = "past_key_values" if "past_key_values" in taken else "cache_params"  # of Mamba
        if kept == "cache_params":  # whose mask is of the tokens that it reads now
            mask = mask[:, -ids.shape[1] :]
        given = {kept: cache} | ({"position_ids": positions} if "position_ids" in taken else {})
        with torch.inference_mode(), adapters_by_row(self.base.model, names):
            out = causal(input_ids=ids, attention_mask=mask, use_cache=True, logits_to_keep=1, **given)
        return out.logits[:, -1].float(), getattr(out, kept)

    def _draw(self, rows: Sequence[Row], logits: Tensor) -> None:
        """The next token of each row. They are read from the device together, waiting for a GPU once."""
        drawn = draw_batch(
            logits, [row.request.sampling for row in rows], [row.generator for row in rows], self._allowed(rows, logits)
        )
        numbers = torch.stack([drawn.token.double(), drawn.log_p.double(), drawn.policy_log_p.double()]).tolist()
        for place, row in enumerate(rows):
            token, log_p, policy_log_p = (column[place] for column in numbers)
            if row.fault is None:
                self._advance(row, logits[place], int(token), log_p, policy_log_p)

    def _allowed(self, rows: Sequence[Row], logits: Tensor) -> Tensor | None:
        """What the rows' constraints allow, (B, V) of bool; None where there is none. A row whose constraint fails has
        a fault from then on."""
        if all(row.constraint is None for row in rows):
            return None
        allowed = torch.ones(logits.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            if row.constraint is not None:
                try:
                    allowed[place] = row.constraint.allowed()
                except Fault as fault:
                    row.fault = fault
        return allowed.to(logits.device)

    def _advance(self, row: Row, logits: Tensor, token: int, log_p: float, policy_log_p: float) -> None:
        """Writes down the row's next token, and ends the row where that was its last."""
        request, base = row.request, self.base
        if token == NO_TOKEN:  # this row's adapter may be broken; its neighbours' are not
            row.fault = Fault("artifact_unusable", "the model's weights give no probabilities", "model")
            return
        row.tokens.append(token)
        row.log_p += log_p
        row.policy_log_p += policy_log_p
        row.policy_log_ps.append(policy_log_p)
        if request.top_logprobs is not None:
            row.logprobs.append(self._scores(logits, token, request.top_logprobs))
        if token in base.ends:
            row.end("stop")
            return
        row.text.add(token)
        if row.constraint is not None:
            try:
                row.constraint.advance(token)
            except Fault as fault:
                row.fault = fault
                return
        if row.text.stopped:
            row.end("stop")
        elif len(row.tokens) >= row.room:
            row.end("stop" if row.constraint is not None and row.constraint.complete else "length")

    def _scores(self, logits: Tensor, token: int, alternatives: int) -> TokenScores:
        log_p = logits.cpu().log_softmax(-1)
        best = log_p.topk(min(alternatives, len(log_p)))
        return self._score(token, float(log_p[token])), [
            self._score(other, value) for other, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _score(self, token: int, log_p: float) -> TokenScore:
        text = self.base.tokenizer.decode([token])
        return TokenScore(text, self.base.bytes_of(token, text), log_p)


def _merges(model: Any) -> bool:
    """Whether caches of this model can be put side by side: those of full and sliding attention. Others (recurrent
    states, chunks) do not suffer padding, so each of their rows goes alone."""
    layers = DynamicCache(config=causal_of(model).config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


def _select(batch: _Batch, places: Tensor) -> None:
    """Keeps (or repeats) these rows of mask and cache, without columns that are padding in all of them."""
    batch.mask = batch.mask[places]
    begin = int(batch.mask.any(0).int().argmax())
    batch.mask = batch.mask[:, begin:]
    for layer in batch.cache.layers:
        if layer.is_initialized:
            layer.keys = layer.keys[places, :, begin:]
            layer.values = layer.values[places, :, begin:]


def _merge(one: _Batch, other: _Batch) -> _Batch:
    """Both batches as one, the narrower padded on its left."""
    width = max(one.mask.shape[1], other.mask.shape[1])

    def widened(part: Tensor, own: int) -> Tensor:
        """(B, H, T, D) → (B, H, T + more, D)."""
        return torch.nn.functional.pad(part, (0, 0, width - own, 0))

    cache = DynamicCache()
    for place, (left, right) in enumerate(zip(one.cache.layers, other.cache.layers, strict=True)):
        if left.is_initialized:
            keys, values = (
                torch.cat([widened(mine, one.mask.shape[1]), widened(yours, other.mask.shape[1])])
                for mine, yours in ((left.keys, right.keys), (left.values, right.values))
            )
            cache.update(keys, values, place)
    masks = [torch.nn.functional.pad(part.mask, (width - part.mask.shape[1], 0)) for part in (one, other)]
    return _Batch([*one.rows, *other.rows], torch.cat(masks), cache, [*one.pending, *other.pending])
