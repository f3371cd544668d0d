"""Which tokens may follow, so that an answer can only be what a JSON schema allows. By llguidance.

A schema becomes a grammar when the request is read; what llguidance does not know is refused there by name, so nothing
that is asked for is left unenforced. The model thread then asks for the allowed tokens before each draw.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor

from training.engine.serving.faults import Fault

MATCHERS_KEPT = 64
WHITE_SPACE = r"(\n {0,16}| )?"
"""A model may lay JSON out in lines or not. Without a bound a weak one writes blanks until it is cut."""


def grammar_of_schema(schema: Mapping[str, Any], field: str) -> str:
    """The grammar of JSON texts that are valid against the schema. Raises Fault that names what cannot be enforced."""
    return _checked(_compile(schema, field), field)


def grammar_of_lark(lark: str, field: str) -> str:
    """The grammar of texts that a grammar of ours in Lark's notation describes. Raises Fault."""
    grammar: str = LLMatcher.grammar_from_lark(lark)
    return _checked(grammar, field)


def json_rule(schema: Mapping[str, Any], field: str) -> str:
    """The schema as a right-hand side in a Lark grammar. Raises Fault as `grammar_of_schema` does."""
    grammar_of_schema(schema, field)
    return "%json " + json.dumps({**schema, "x-guidance": _OPTIONS})


def _checked(grammar: str, field: str) -> str:
    """The grammar, compiled once without a tokenizer. Raises Fault."""
    failed, reasons = LLMatcher.validate_grammar_with_warnings(grammar)
    if failed:
        reason = " ".join(str(reasons[0]).split())[:300]
        raise Fault("invalid_request", f"{field} cannot be enforced: {reason}", field)
    return grammar


_OPTIONS: dict[str, Any] = {
    "whitespace_pattern": WHITE_SPACE,
    "whitespace_flexible": True,
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}


def _compile(schema: Mapping[str, Any], field: str) -> str:
    for name, value in _keywords(schema):
        if name == "minProperties" and isinstance(value, int) and value > 1:
            raise Fault(
                "invalid_request", f"{field} cannot be enforced: minProperties above 1 (keys may repeat)", field
            )
        if name == "x-guidance":
            raise Fault("invalid_request", f"{field}: x-guidance is not a keyword of JSON Schema", field)
    try:
        grammar: str = LLMatcher.grammar_from_json_schema(dict(schema), overrides=_OPTIONS)  # type: ignore[arg-type]
    except ValueError as error:
        raise Fault("invalid_request", f"{field} is not a JSON schema: {str(error)[:200]}", field) from error
    return grammar


def _keywords(node: Any) -> Iterator[tuple[str, Any]]:
    """Every name and value of the schema but for those inside values that are data."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield name, value
            if name not in ("enum", "const", "default", "examples"):
                yield from _keywords(value)
    elif isinstance(node, list):
        for value in node:
            yield from _keywords(value)


class Constraint:
    """The state of one row's grammar. `vocabulary` is the width of the model's logits."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    def allowed(self) -> Tensor:
        """(vocabulary,) of bool: the tokens that may come next; an end of sequence where the text may end. Raises Fault
        when the grammar became too large to follow."""
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        bits = np.unpackbits(packed, bitorder="little", count=min(self._vocabulary, 8 * len(packed)))
        mask = torch.zeros(self._vocabulary, dtype=torch.bool)
        mask[: len(bits)] = torch.from_numpy(bits).bool()
        return mask

    def advance(self, token: int) -> None:
        """Takes in a token that was allowed."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def complete(self) -> bool:
        """Whether the text is valid as it is."""
        return bool(self._matcher.is_accepting())

    def _check(self) -> None:
        if self._matcher.is_error():
            reason = " ".join(self._matcher.get_error().split())[:200]
            raise Fault("invalid_request", f"the schema is too complex to follow here: {reason}", "response_format")


class Grammars:
    """Makes constraints for one model's tokenizer. Grammars are compiled once and copied."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._ends = sorted(ends)
        self._opened: LLTokenizer | None = None
        self._matchers: OrderedDict[str, LLMatcher] = OrderedDict()

    def start(self, grammar: str) -> Constraint:
        """The constraint of a new row. Raises Fault."""
        matcher = self._matchers.get(grammar)
        if matcher is None:
            matcher = LLMatcher(self._open(), grammar, log_level=0)
            if matcher.is_error():
                reason = " ".join(matcher.get_error().split())[:300]
                raise Fault("invalid_request", f"the schema cannot be enforced for this model: {reason}")
            self._matchers[grammar] = matcher
            if len(self._matchers) > MATCHERS_KEPT:
                self._matchers.popitem(last=False)
        self._matchers.move_to_end(grammar)
        return Constraint(matcher.deep_copy(), self._vocabulary)

    def bytes_of(self, token: int) -> bytes:
        """The token's own bytes, which need not be whole characters. Raises Fault."""
        return bytes(self._open().decode_bytes([token]))

    def _open(self) -> LLTokenizer:
        if self._opened is None:
            try:
                # A tokenizer may have more tokens than the model, and a model more rows than its tokenizer tokens.
                self._opened = from_tokenizer(self._tokenizer, max(self._vocabulary, len(self._tokenizer)), self._ends)
            except Exception as error:  # whatever a foreign tokenizer lacks
                reason = str(error)[:200]
                raise Fault(
                    "unsupported_parameter", f"this model's tokenizer cannot be held to a grammar: {reason}"
                ) from error
        return self._opened
