"""A chat as it is asked and answered, and its way from messages to token ids.

Called by the model thread: `prepare` gives a row for each answer that is asked for, which `generation` lets grow, or
`choices` scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from training.engine.models.prompts import fold_system
from training.engine.rows.types import Prompt
from training.engine.serving.constraints import Constraint
from training.engine.serving.faults import Fault
from training.engine.serving.growing_text import GrowingText
from training.engine.serving.pool import LoadedBase
from training.engine.serving.sampling import Sampling
from training.engine.serving.tools import OPENING, Toolbox, takes_tools, written_out

DEFAULT_MAX_TOKENS = 4096
MARK = "reckoner7answer7stands7here"
"""Stands for an answer while its place in a rendered conversation is sought. No tokenizer has a control token in it."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation, answered `count` times. `messages` are OpenAI's, their content plain text.

    `top_logprobs` is None when no log-probabilities are asked for. `max_tokens` None means what fits, up to 4096.
    Answer i is drawn by a generator seeded with `seed` + i. At most one of `grammar` (of `constraints`), `choices` (the
    answer is one of these texts) and a toolbox that forces a call is given. Of a text of the user's that has, together
    with the system message, more than `max_prompt_tokens` tokens the middle is left out, as in training, and
    `max_tokens` is then at most what fits.
    """

    model: str
    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    count: int = 1
    grammar: str | None = None
    choices: tuple[str, ...] = ()
    toolbox: Toolbox | None = None
    max_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token's text, its own bytes, and its log-probability under the model before bias, temperature and top_p."""

    text: str
    raw: bytes
    log_p: float


TokenScores = tuple[TokenScore, list[TokenScore]]
"""A token that was drawn, and the likeliest ones at its place."""


@dataclass(frozen=True, slots=True)
class Written:
    """One answer, ended. `tokens` are those that were drawn, an end of sequence included.

    `log_p` is the sum of their log-probabilities under the model, `policy_log_p` that under the policy they were drawn
    from: after bias, constraint, temperature and top_p. `probabilities` belong to a request's choices, in their order.
    """

    text: str
    finish_reason: Literal["stop", "length"]
    tokens: tuple[int, ...]
    log_p: float
    policy_log_p: float
    logprobs: list[TokenScores] | None = None
    probabilities: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """All answers to one request, in their order."""

    prompt_tokens: int
    written: tuple[Written, ...]

    @property
    def completion_tokens(self) -> int:
        return sum(len(one.tokens) for one in self.written)


@dataclass(frozen=True, slots=True)
class Begun:
    """The request was read and has its place; what is wrong with it was told before this."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What answer `index` has grown by. `written` comes with its last piece."""

    index: int
    text: str
    logprobs: list[TokenScores]
    written: Written | None = None


Tell = Callable[[Begun | Piece], None]
"""Hears of a chat while it is answered, in the model thread: it must not wait."""


@dataclass(slots=True)
class Row:
    """One answer while it grows. `fault` ends it, as `written` does; `told` when its last piece was."""

    request: ChatRequest
    index: int
    prompt_ids: list[int]
    room: int
    generator: torch.Generator
    text: GrowingText
    constraint: Constraint | None = None
    tokens: list[int] = field(default_factory=list)
    log_p: float = 0.0
    policy_log_p: float = 0.0
    policy_log_ps: list[float] = field(default_factory=list)
    """Of each drawn token; their sum is `policy_log_p`."""
    logprobs: list[TokenScores] = field(default_factory=list)
    told_logprobs: int = 0
    told: bool = False
    written: Written | None = None
    fault: Fault | None = None

    @property
    def ended(self) -> bool:
        return self.written is not None or self.fault is not None

    def end(self, reason: Literal["stop", "length"], probabilities: tuple[float, ...] | None = None) -> None:
        """No more tokens come."""
        self.text.end()
        self.written = Written(
            self.text.text,
            reason,
            tuple(self.tokens),
            self.log_p,
            self.policy_log_p,
            None if self.request.top_logprobs is None else self.logprobs,
            probabilities,
        )

    def piece(self) -> Piece | None:
        """What nobody was told yet; None where that is nothing."""
        text = self.text.take(ended=self.written is not None)
        if not text and self.written is None:
            return None
        logprobs = self.logprobs[self.told_logprobs :]
        self.told_logprobs, self.told = len(self.logprobs), self.written is not None
        return Piece(self.index, text, logprobs, self.written)


def prepare(base: LoadedBase, request: ChatRequest) -> list[Row]:
    """The request as token ids, a row for each answer. Raises Fault for messages the template refuses, or that do not
    fit the model, and for what its tokenizer cannot be held to."""
    return make_rows(base, request, encode(base, _render(base, request)))


def encode(base: LoadedBase, rendered: str) -> list[int]:
    """Token ids of what a template has written."""
    ids: list[int] = base.tokenizer([rendered], add_special_tokens=False)["input_ids"][0]
    return ids


def make_rows(base: LoadedBase, request: ChatRequest, ids: list[int]) -> list[Row]:
    """A row for each answer to a prompt that is encoded already. Raises Fault as `prepare` does."""
    room = base.positions - len(ids)
    wanted = min(room, DEFAULT_MAX_TOKENS) if request.max_tokens is None else request.max_tokens
    if request.max_prompt_tokens is not None:
        wanted = min(room, wanted)
    if wanted > room or room < 1:
        raise Fault(
            "context_length_exceeded",
            f"This model's maximum context length is {base.positions} tokens; these are {len(ids)} tokens of messages "
            f"and {wanted} to generate",
            "messages" if room < 1 else "max_tokens",
        )
    for token, _ in request.sampling.bias:
        if token >= base.vocabulary:
            raise Fault("invalid_request", f"logit_bias: the model has no token {token}", "logit_bias")
    grammar = request.grammar
    if request.toolbox is not None and request.toolbox.forced:
        template = base.tokenizer.chat_template
        blocks = takes_tools(template) and OPENING in template
        grammar = request.toolbox.forced_blocks if blocks else request.toolbox.forced_list
    return [
        Row(
            request,
            index,
            ids,
            wanted,
            _generator(base, request, index),
            GrowingText(base.decode, request.stop),
            None if grammar is None else base.grammars.start(grammar),
        )
        for index in range(request.count)
    ]


def _generator(base: LoadedBase, request: ChatRequest, index: int) -> torch.Generator:
    generator = torch.Generator(base.scorer.device)
    if request.seed is None:
        generator.seed()
    else:
        generator.manual_seed((request.seed + index) % 2**63)
    return generator


def render_after(base: LoadedBase, request: ChatRequest, answer: int) -> str:
    """What the template writes behind the text of message `answer`, an earlier answer of the model's, up to where the
    next one begins: the end of its turn, and the messages since. Raises Fault where that cannot be told."""
    messages, tools = _as_read(base, request)
    place = len(_as_read(base, replace(request, messages=request.messages[: answer + 1]))[0]) - 1
    # The answer's own text, calls included, stands in the transcript already.
    marked = [*messages[:place], {"role": "assistant", "content": MARK}, *messages[place + 1 :]]
    rendered = _apply_template(base, marked, tools)
    if rendered.count(MARK) != 1:
        raise Fault("invalid_request", "the model's chat template does not show its answers", "messages")
    return rendered.partition(MARK)[2]


def _render(base: LoadedBase, request: ChatRequest) -> str:
    """The conversation as the template writes it, up to where the answer begins."""
    return _apply_template(base, *_as_read(base, request))


def _as_read(base: LoadedBase, request: ChatRequest) -> tuple[Sequence[Any], list[Any] | None]:
    """Messages and tools as the template is given them."""
    toolbox = request.toolbox
    given = request.messages if request.max_prompt_tokens is None else _cut(base, request)
    shown = () if toolbox is None or toolbox.choice == "none" else toolbox.tools
    messages: Sequence[Any]
    tools: list[Any] | None = None
    if takes_tools(base.tokenizer.chat_template):
        messages = given
        tools = [tool.described() for tool in shown] or None
    else:
        messages = written_out(given, shown)
    if not base.scorer.prompts.knows_system:
        messages = fold_system(messages)
    return messages, tools


def _apply_template(base: LoadedBase, messages: Sequence[Any], tools: list[Any] | None) -> str:
    """Control tokens that are spelled out in any of the texts are broken up: a text cannot end its own turn."""
    harmless = base.scorer.prompts.harmless
    try:
        rendered: str = base.tokenizer.apply_chat_template(
            _in_all_texts(messages, harmless),
            tools=_in_all_texts(tools, harmless),
            add_generation_prompt=True,
            tokenize=False,
        )
    except Exception as error:
        # Templates are programs of the model's authors, and refuse by raising whatever they like.
        raise Fault("invalid_request", f"the model's chat template refuses: {str(error)[:200]}", "messages") from error
    return rendered


def _cut(base: LoadedBase, request: ChatRequest) -> Sequence[Mapping[str, Any]]:
    """Raises Fault where the system prompt leaves no room for what is asked."""
    encoder = base.encoder(request.max_prompt_tokens or 1)
    first = request.messages[0]
    system = (first["content"] or "") if first["role"] == "system" else ""
    if faults := encoder.find_faults([Prompt("", system)]):
        raise Fault("context_length_exceeded", faults[0], "messages")
    return [
        {**message, "content": encoder.cut([Prompt(message["content"], system)])[0]}
        if message["role"] == "user"
        else message
        for message in request.messages
    ]


def _in_all_texts(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, str):
        return change(node)
    if isinstance(node, Mapping):
        return {change(key): _in_all_texts(value, change) for key, value in node.items()}
    return [_in_all_texts(value, change) for value in node] if isinstance(node, list | tuple) else node
