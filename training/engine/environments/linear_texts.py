"""Linear expressions as people write them, such as 2(y − 3)/4 + 0.5y, read exactly and within bounds. No torch.

A text is read once from left to right, nothing of it is evaluated as code, and every number in between is bounded, so
no text takes long. `equation_texts` reads equations by it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

LONGEST = 200
"""Characters of an equation."""
DEEPEST = 20
"""Brackets and signs inside each other."""
LARGEST = 10**12
"""Of numerators and denominators in between."""
MOST_EXPONENT = 9
SIGNS, BRACKET = frozenset("+-"), frozenset("(")
OPENERS = SIGNS | BRACKET | frozenset("*/^")
"""After these a sign belongs to what follows."""
_TOKEN = re.compile(r"\d{1,9}(?:\.\d{1,9})?(?![\d.])|[A-Za-z]+|[-+*/^()]", re.ASCII)
_ALIKE = str.maketrans("−–×·÷[]", "--**/()")
_POWERS = str.maketrans({sign: f"^{number}" for number, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})


class NotLinear(ValueError):
    """A text is no linear expression of one unknown; the message ends a sentence that begins with the text."""


class Linear(NamedTuple):
    """`factor` · unknown + `number`."""

    factor: Fraction
    number: Fraction


class Expression(NamedTuple):
    """What was read. `written`: as it was written, with even spaces and the unknown called x. `unknowns`: its letters.
    `is_sum`: it has neither brackets nor products of more than a number and the unknown, nor fractions."""

    value: Linear
    written: str
    unknowns: frozenset[str]
    is_sum: bool


def read_expression(text: str) -> Expression:
    """Raises NotLinear, which says what is wrong and where."""
    if len(text) > LONGEST:
        raise NotLinear(f"has {len(text)} characters, more than {LONGEST}")
    tokens = _split(text.translate(_ALIKE).translate(_POWERS))
    if not tokens:
        raise NotLinear("has nothing on one side of the equals sign")
    unknowns = frozenset(token for token in tokens if token.isalpha())
    if len(unknowns) > 1:
        raise NotLinear(f"has more than one unknown: {', '.join(sorted(unknowns))}")
    reader = _Reader(tokens)
    value = reader.read_sum(0)
    if reader.left:
        raise NotLinear(f"cannot be read at {''.join(reader.left)[:20]!r}")
    plain = not {"(", "/", "^"} & set(tokens) and all("." not in token for token in tokens)
    return Expression(value, _write(tokens), unknowns, plain)


def _split(text: str) -> list[str]:
    tokens, place = [], 0
    while (rest := text[place:].lstrip()) != "":
        place = len(text) - len(rest)
        found = _TOKEN.match(text, place)
        if found is None or (found[0].isalpha() and len(set(found[0].lower())) > 1):
            raise NotLinear(f"cannot be read at {rest.strip()[:20]!r}")
        # A letter twice in a row is a product, as xx.
        tokens += list(found[0].lower()) if found[0].isalpha() else [found[0]]
        place = found.end()
    return tokens


def _write(tokens: list[str]) -> str:
    told, before = "", "("
    for token in tokens:
        is_binary = token in SIGNS and before not in OPENERS
        told += f" {token} " if is_binary else "x" if token.isalpha() else token
        before = token
    return told


class _Reader:
    """Reads by descent: a sum is of products, a product of powers, a power of a number, the unknown or brackets."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens.copy()

    def read_sum(self, depth: int) -> Linear:
        value = self._read_product(depth)
        while (sign := self._next("+", "-")) is not None:
            other = self._read_product(depth)
            scale = 1 if sign == "+" else -1
            value = _bound(value.factor + scale * other.factor, value.number + scale * other.number)
        return value

    def _read_product(self, depth: int) -> Linear:
        value = self._read_signed(depth)
        while True:
            sign = self._next("*", "/")
            if sign is None and not (self.left and self._begins_factor(self.left[0])):
                return value
            other = self._read_power(depth) if sign is None else self._read_signed(depth)
            value = _divide(value, other) if sign == "/" else _multiply(value, other)

    def _begins_factor(self, token: str) -> bool:
        """Of what follows without a sign: 3x, 2(x + 1). Two numbers in a row are a mistake."""
        return token in BRACKET or token.isalpha()

    def _read_signed(self, depth: int) -> Linear:
        if depth > DEEPEST:
            raise NotLinear(f"has more than {DEEPEST} brackets and signs inside each other")
        sign = self._next("-", "+")
        if sign is None:
            return self._read_power(depth)
        value = self._read_signed(depth + 1)
        return Linear(-value.factor, -value.number) if sign == "-" else value

    def _read_power(self, depth: int) -> Linear:
        value = self._read_atom(depth)
        if self._next("^") is None:
            return value
        token = self.left.pop(0) if self.left else ""
        if not token.isdigit() or int(token) > MOST_EXPONENT:
            raise NotLinear(f"has an exponent that is no whole number from 0 to {MOST_EXPONENT}")
        power = int(token)
        if value.factor and power > 1:
            raise NotLinear(f"is not linear: the unknown has the power {power}")
        if value.factor:
            return value if power else Linear(Fraction(0), Fraction(1))
        return _bound(Fraction(0), value.number**power)

    def _read_atom(self, depth: int) -> Linear:
        if not self.left:
            raise NotLinear("ends where a number or the unknown is expected")
        token = self.left.pop(0)
        if token in BRACKET:
            value = self.read_sum(depth + 1)
            if self._next(")") is None:
                raise NotLinear("has a bracket that is not closed")
            return value
        if token.isalpha():
            return Linear(Fraction(1), Fraction(0))
        if token[0].isdigit():
            return Linear(Fraction(0), Fraction(token))
        raise NotLinear(f"cannot be read at {''.join([token, *self.left])[:20]!r}")

    def _next(self, *wanted: str) -> str | None:
        return self.left.pop(0) if self.left and self.left[0] in wanted else None


def _multiply(one: Linear, other: Linear) -> Linear:
    if one.factor and other.factor:
        raise NotLinear("is not linear: the unknown is multiplied by itself")
    return _bound(one.factor * other.number + other.factor * one.number, one.number * other.number)


def _divide(one: Linear, other: Linear) -> Linear:
    if other.factor:
        raise NotLinear("is not linear: something is divided by the unknown")
    if not other.number:
        raise NotLinear("divides by 0")
    return _bound(one.factor / other.number, one.number / other.number)


def _bound(factor: Fraction, number: Fraction) -> Linear:
    if max(abs(part) for value in (factor, number) for part in value.as_integer_ratio()) > LARGEST:
        raise NotLinear(f"has a number beyond {LARGEST:,}")
    return Linear(factor, number)
