"""Free generation for several conversations at once, token by token.

Every row has its own sampling settings and random generator, so its text does not depend on the other rows; base and
adapters share the batch. The model thread drives `Generation.steps` and may do something short between two tokens.
Exact probabilities of options come from `scoring`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from training.engine.actions import causal_of
from training.engine.adapters import adapters_by_row
from training.engine.serving.faults import Fault
from training.engine.serving.pool import LoadedBase

DEFAULT_MAX_TOKENS = 256
COLD = 1e-3
NO_TOKEN = -1


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation. `messages` are {"role", "content"} with plain text; `temperature` 0 takes the likeliest token.

    `top_logprobs` is None when no log-probabilities are asked for. `max_tokens` None means what fits, up to 256.
    """

    model: str
    messages: tuple[dict[str, str], ...]
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token's text, bytes, and log-probability under the model before temperature and top_p."""

    text: str
    log_p: float


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """`logprobs`: one entry a generated token, its alternatives beside it; None unless asked for."""

    text: str
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    logprobs: list[tuple[TokenScore, list[TokenScore]]] | None


@dataclass(slots=True)
class Row:
    """A conversation while it is being answered."""

    request: ChatRequest
    prompt_ids: list[int]
    room: int
    generator: torch.Generator
    tokens: list[int] = field(default_factory=list)
    logprobs: list[tuple[TokenScore, list[TokenScore]]] = field(default_factory=list)
    text: str = ""
    finish_reason: Literal["stop", "length"] | None = None
    fault: Fault | None = None

    def answer(self) -> ChatAnswer:
        return ChatAnswer(
            self.text,
            self.finish_reason or "length",
            len(self.prompt_ids),
            len(self.tokens),
            None if self.request.top_logprobs is None else self.logprobs,
        )


def prepare(base: LoadedBase, request: ChatRequest) -> Row:
    """The request as token ids. Raises Fault for messages the template refuses or that do not fit the model."""
    messages = [message | {"content": base.scorer.prompts.harmless(message["content"])} for message in request.messages]
    try:
        rendered = base.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except Exception as error:
        # Templates are programs of the model's authors, and refuse by raising whatever they like.
        raise Fault("invalid_request", f"the model's chat template refuses: {str(error)[:200]}", "messages") from error
    ids: list[int] = base.tokenizer([rendered], add_special_tokens=False)["input_ids"][0]
    room = base.positions - len(ids)
    wanted = min(room, DEFAULT_MAX_TOKENS) if request.max_tokens is None else request.max_tokens
    if wanted > room or room < 1:
        raise Fault(
            "context_length_exceeded",
            f"{len(ids)} tokens of messages and {wanted} to generate; the model's context is {base.positions} tokens",
            "messages" if room < 1 else "max_tokens",
        )
    generator = torch.Generator(base.scorer.device)
    if request.seed is None:
        generator.seed()
    else:
        generator.manual_seed(request.seed % 2**63)
    return Row(request, ids, wanted, generator)


class Generation:
    """A batch of rows under one base. Weights and adapters must stay in memory until `steps` is exhausted."""

    def __init__(self, base: LoadedBase, rows: Sequence[Row]) -> None:
        self.base = base
        self.rows = rows

    def steps(self) -> Iterator[None]:
        """Generates one token for every unfinished row between two yields."""
        device = self.base.scorer.device
        width = max(len(row.prompt_ids) for row in self.rows)
        filler = self.base.tokenizer.pad_token_id
        ids = torch.tensor([[filler] * (width - len(r.prompt_ids)) + r.prompt_ids for r in self.rows], device=device)
        mask = torch.tensor(
            [[0] * (width - len(r.prompt_ids)) + [1] * len(r.prompt_ids) for r in self.rows], device=device
        )
        cache: Any = None
        while True:
            logits, cache = self._forward(ids, mask, cache)
            drawn = torch.stack([self._draw(row, logits[index]) for index, row in enumerate(self.rows)]).tolist()
            chosen = [self._advance(row, logits[index], drawn[index]) for index, row in enumerate(self.rows)]
            yield
            if all(row.finish_reason for row in self.rows):
                return
            ids = torch.tensor(chosen, device=device)[:, None]
            mask = torch.cat([mask, mask.new_ones(len(chosen), 1)], 1)

    def _forward(self, ids: Tensor, mask: Tensor, cache: Any) -> tuple[Tensor, Any]:
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        names = self.base.rows([row.request.model for row in self.rows])
        with torch.inference_mode(), adapters_by_row(self.base.model, names):
            out = causal_of(self.base.model)(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        return out.logits[:, -1].float(), out.past_key_values

    def _draw(self, row: Row, logits: Tensor) -> Tensor:
        """The row's next token, left where it was drawn: the batch's are read together, waiting for a GPU once."""
        if row.finish_reason:
            return logits.new_full((), NO_TOKEN, dtype=torch.long)
        return draw(logits, row.request.temperature, row.request.top_p, row.generator)

    def _advance(self, row: Row, logits: Tensor, token: int) -> int:
        """Writes down the row's next token, unless it is finished, and returns what to feed next."""
        if row.finish_reason:
            return int(self.base.tokenizer.pad_token_id)
        request = row.request
        if token == NO_TOKEN:  # this row's adapter may be broken; its neighbours' are not
            row.fault = Fault("artifact_unusable", "the model's weights give no probabilities", "model")
            row.finish_reason = "stop"
            return int(self.base.tokenizer.pad_token_id)
        row.tokens.append(token)
        if request.top_logprobs is not None:
            row.logprobs.append(self._token_scores(logits, token, request.top_logprobs))
        if token in self.base.ends:
            row.finish_reason = "stop"
        elif len(row.tokens) >= row.room:
            row.finish_reason = "length"
        if row.finish_reason or request.stop:
            row.text = self.base.tokenizer.decode(row.tokens, skip_special_tokens=True)
            places = [place for stop in request.stop if (place := row.text.find(stop)) >= 0]
            if places:
                row.text, row.finish_reason = row.text[: min(places)], "stop"
        return token

    def _token_scores(self, logits: Tensor, token: int, alternatives: int) -> tuple[TokenScore, list[TokenScore]]:
        log_p = logits.cpu().log_softmax(-1)
        best = log_p.topk(min(alternatives, len(log_p)))
        return self._token_score(token, float(log_p[token])), [
            self._token_score(other, value)
            for other, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _token_score(self, token: int, log_p: float) -> TokenScore:
        return TokenScore(self.base.tokenizer.decode([token]), log_p)


def draw(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """`logits` (V,) → a token (), on their device. Nucleus sampling (Holtzman et al. 2020): the fewest tokens holding
    `top_p` of the mass.

    Below COLD the likeliest token is taken: dividing by less leaves the range of floats. NO_TOKEN for NaN logits.
    """
    if temperature < COLD:
        token = logits.argmax()
    else:
        p = (logits / temperature).softmax(-1)
        if top_p >= 1:
            token = _race(p, generator)
        else:
            ordered, tokens = p.sort(descending=True)
            # The token that crosses the limit is kept.
            token = tokens[_race(ordered.masked_fill(ordered.cumsum(0) - ordered >= top_p, 0), generator)]
    return token.masked_fill(logits.isnan().any(), NO_TOKEN)


def _race(p: Tensor, generator: torch.Generator) -> Tensor:
    """One draw from weights `p` (V,): the first of independent exponential clocks. torch.multinomial does the same and,
    on a GPU, ends the process where a weight is no number.
    """
    return (p / torch.empty_like(p).exponential_(generator=generator)).argmax()
