"""OpenAI's objects: a whole chat completion, and the chunks of one that streams. No torch.

Beside OpenAI's fields each choice has `reckoner`: {logprob, policy_logprob, token_ids, probabilities}, so that who logs
the answer knows how probable it was; the whole has `reckoner`: {model, digest}.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from training.engine.rows.calls import Call, certain_words
from training.engine.serving.chat import Begun, ChatAnswer, ChatRequest, Piece, TokenScore, TokenScores, Written
from training.engine.serving.tools import Tool, read_calls

LEAST_LOGPROB = -9999.0
"""What OpenAI gives for a token that is as good as impossible; JSON knows no infinity."""


class Completion:
    """One request's answer, with the id and time that all of its chunks share."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        toolbox = request.toolbox
        self._tools: tuple[Tool, ...] = () if toolbox is None or toolbox.choice == "none" else toolbox.tools
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": request.model}
        self._texts = [""] * request.count
        self._told = [0] * request.count
        self._held: list[list[TokenScores]] = [[] for _ in range(request.count)]

    def whole(self, answer: ChatAnswer) -> dict[str, Any]:
        """The chat.completion object."""
        return {
            **self._head,
            "object": "chat.completion",
            "system_fingerprint": None,
            "choices": [self._choice(index, written) for index, written in enumerate(answer.written)],
            "usage": _usage(answer),
            "reckoner": self._served(),
        }

    def begin(self, begun: Begun, *, with_usage: bool) -> Iterator[dict[str, Any]]:
        """The first chunk of every choice, which holds the role."""
        for index in range(self._request.count):
            delta = {"role": "assistant", "content": None if self._forced else "", "refusal": None}
            yield self._chunk(index, delta, with_usage=with_usage)

    def grow(self, piece: Piece, *, with_usage: bool) -> Iterator[dict[str, Any]]:
        """The chunks of a piece. What may become a tool call is held back until that is clear."""
        index, written = piece.index, piece.written
        self._texts[index] += piece.text
        self._held[index] += piece.logprobs
        text = self._texts[index]
        calls: list[Call] = []
        if self._tools and written is not None:
            words, calls = read_calls(text, self._tools)
            certain = max(len(words), self._told[index])
        else:
            certain = certain_words(text) if self._tools and written is None else len(text)
        words = text[self._told[index] : certain]
        self._told[index] = max(self._told[index], certain)
        deltas: list[dict[str, Any]] = [{"content": words}] if words else []
        deltas += [{"tool_calls": [{"index": number, **_call(call)}]} for number, call in enumerate(calls)]
        if written is not None and not deltas and self._held[index]:
            deltas.append({"content": ""})  # the logprobs of an end of sequence
        for delta in deltas:
            yield self._chunk(index, delta, logprobs=self._logprobs(index), with_usage=with_usage)
        if written is not None:
            reason = "tool_calls" if calls else written.finish_reason
            last = self._chunk(index, {}, reason=reason, with_usage=with_usage)
            last["choices"][0]["reckoner"] = _measured(written)
            yield last | {"reckoner": self._served()}

    def usage(self, answer: ChatAnswer) -> dict[str, Any]:
        """The chunk after the last, for those who asked for it."""
        return {
            **self._head,
            "object": "chat.completion.chunk",
            "system_fingerprint": None,
            "choices": [],
            "usage": _usage(answer),
        }

    @property
    def _forced(self) -> bool:
        return self._request.toolbox is not None and self._request.toolbox.forced

    def _served(self) -> dict[str, Any]:
        """Models are asked for by digest here."""
        return {"model": self._request.model, "digest": self._request.model}

    def _choice(self, index: int, written: Written) -> dict[str, Any]:
        words, calls = read_calls(written.text, self._tools) if self._tools else (written.text, [])
        message: dict[str, Any] = {"role": "assistant", "content": words if words or not calls else None}
        message["refusal"] = None
        if calls:
            message["tool_calls"] = [_call(call) for call in calls]
        return {
            "index": index,
            "message": message,
            "finish_reason": "tool_calls" if calls else written.finish_reason,
            "logprobs": None if written.logprobs is None else _logprobs(written.logprobs),
            "reckoner": _measured(written),
        }

    def _logprobs(self, index: int) -> dict[str, Any] | None:
        """Those that came since the last chunk."""
        if self._request.top_logprobs is None:
            return None
        held, self._held[index] = self._held[index], []
        return _logprobs(held)

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
        with_usage: bool,
    ) -> dict[str, Any]:
        chunk = {
            **self._head,
            "object": "chat.completion.chunk",
            "system_fingerprint": None,
            "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}],
        }
        return chunk | {"usage": None} if with_usage else chunk


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _measured(written: Written) -> dict[str, Any]:
    measured: dict[str, Any] = {
        "logprob": written.log_p,
        "policy_logprob": written.policy_log_p,
        "token_ids": written.tokens,
    }
    if written.probabilities is not None:
        measured["probabilities"] = written.probabilities
    return measured


def _usage(answer: ChatAnswer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }


def _logprobs(scores: Sequence[TokenScores]) -> dict[str, Any]:
    content = [_token(token) | {"top_logprobs": [_token(other) for other in others]} for token, others in scores]
    return {"content": content, "refusal": None}


def _token(score: TokenScore) -> dict[str, Any]:
    return {"token": score.text, "logprob": max(score.log_p, LEAST_LOGPROB), "bytes": list(score.raw)}
