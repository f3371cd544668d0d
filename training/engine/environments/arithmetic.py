"""Answers in the form of GSM8K: every step that carries its calculation is checked exactly, and so is the answer.

A step is `<<48/2=24>>` in the text of a solution; the answer stands in the last line that begins with `####` or `A:`.
Numbers are fractions, never floats, and nothing that a model wrote is evaluated as code. No torch.

Source: Cobbe et al. 2021, "Training Verifiers to Solve Math Word Problems".
"""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

LONGEST = 200
"""Characters of a step, or of a number. GSM8K's longest step has 36."""
DEEPEST = 20
"""Parentheses and signs inside each other."""

STEP = re.compile(r"<<([^<>]*)>>")
ANSWER = re.compile(r"^(?:####|A:)[ \t]*(.*?)[ \t]*$", re.MULTILINE)
TOKEN = re.compile(r"\s*(//|[-+*/()]|(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?%?|\.\d+%?)\s*", re.ASCII)
NUMBER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?%?", re.ASCII)


class Verdict(StrEnum):
    """What a check of a step found. `exact`: both sides are the same number. `rounded`: the right side has decimal
    places and is the left side rounded to them. `unreadable`: one of the sides is no arithmetic."""

    EXACT = "exact"
    ROUNDED = "rounded"
    WRONG = "wrong"
    UNREADABLE = "unreadable"


class StepCheck(NamedTuple):
    """`text`: the step. `value`: what its left side is, None where it cannot be read. `reason`: why it is not exact."""

    text: str
    verdict: Verdict
    value: Fraction | None = None
    reason: str = ""


class NotArithmetic(ValueError):
    """A text is no calculation with + − * / and parentheses, or divides by zero."""


def check_steps(solution: str) -> list[StepCheck]:
    """A check of every step that carries its calculation, in order."""
    return [check_step(text) for text in STEP.findall(solution)]


def check_step(text: str) -> StepCheck:
    """A check of what stands between << and >>. Right of the last = stands what the left side is said to be."""
    left, equals, right = text.rpartition("=")
    if not equals:
        return StepCheck(text, Verdict.UNREADABLE, reason="has no =")
    try:
        value, said = calculate(left), calculate(right)
    except NotArithmetic as error:
        return StepCheck(text, Verdict.UNREADABLE, reason=str(error))
    if value == said:
        return StepCheck(text, Verdict.EXACT, value)
    places = len(right.strip().rstrip("%").partition(".")[2])
    unit = Fraction(1, 10**places) / (100 if right.strip().endswith("%") else 1)
    if places and abs(value - said) <= unit / 2:
        return StepCheck(text, Verdict.ROUNDED, value, f"is {value}, rounded to {places} places")
    return StepCheck(text, Verdict.WRONG, value, f"is {value}, not {said}")


def calculate(text: str) -> Fraction:
    """The exact value of a calculation: numbers with thousands commas, decimals or %, + − * / //, parentheses, signs.

    Raises NotArithmetic.
    """
    if len(text) > LONGEST:
        raise NotArithmetic(f"has {len(text)} characters, more than {LONGEST}")
    reader = _Reader(text)
    value = reader.read_sum(0)
    if reader.left:
        raise NotArithmetic(f"{reader.left[0]!r} is not expected after {text.strip()[:40]!r} has ended")
    return value


def read_number(text: str) -> Fraction | None:
    """A written number: 1,250 · -3.50 · $.5 · 12.5% · 3/4. None where it is none."""
    text = text.strip().removesuffix(".")
    if len(text) > LONGEST:
        return None
    over, slash, under = text.partition("/")
    parts = [over, under] if slash else [over]
    if any(NUMBER.fullmatch(part) is None or not any(map(str.isdigit, part)) for part in parts):
        return None
    top, bottom = _as_fraction(over), _as_fraction(under) if slash else Fraction(1)
    return top / bottom if bottom else None


def read_final_answer(solution: str) -> str | None:
    """What stands after `####` or `A:` at the beginning of the last such line; None where no line begins so."""
    found: list[str] = ANSWER.findall(solution)
    return found[-1] if found else None


def is_same_answer(said: str | None, right: str) -> bool:
    """Whether two answers are the same number exactly, however they are written; texts that are no numbers must be
    equal."""
    if said is None:
        return False
    value = read_number(said)
    return said.strip() == right.strip() if value is None else value == read_number(right)


def is_right(solution: str, right: str) -> bool:
    """Whether a solution ends in the answer. `right`: the answer alone, or a solution that ends in it."""
    wanted = read_final_answer(right)
    return is_same_answer(read_final_answer(solution), right if wanted is None else wanted)


def _as_fraction(number: str) -> Fraction:
    plain = number.replace(",", "").replace("$", "")
    return Fraction(plain.rstrip("%")) / (100 if plain.endswith("%") else 1)


class _Reader:
    """Reads a calculation by descent: a sum is of products, a product of factors, a factor a number or parentheses."""

    def __init__(self, text: str) -> None:
        self.left = self._split(text)

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, place = [], 0
        while place < len(text):
            found = TOKEN.match(text, place)
            if found is None:
                raise NotArithmetic(f"{text[place:].strip()[:20]!r} is no number and none of + - * / ( )")
            tokens.append(found[1])
            place = found.end()
        return tokens

    def _next(self, *wanted: str) -> str | None:
        return self.left.pop(0) if self.left and self.left[0] in wanted else None

    def read_sum(self, depth: int) -> Fraction:
        value = self._read_product(depth)
        while (sign := self._next("+", "-")) is not None:
            other = self._read_product(depth)
            value = value + other if sign == "+" else value - other
        return value

    def _read_product(self, depth: int) -> Fraction:
        value = self._read_factor(depth)
        while (sign := self._next("*", "/", "//")) is not None:
            other = self._read_factor(depth)
            if sign == "*":
                value *= other
            elif not other:
                raise NotArithmetic("divides by zero")
            else:
                value = value / other if sign == "/" else Fraction(value // other)
        return value

    def _read_factor(self, depth: int) -> Fraction:
        if depth > DEEPEST:
            raise NotArithmetic(f"has more than {DEEPEST} parentheses and signs inside each other")
        if (sign := self._next("-", "+")) is not None:
            value = self._read_factor(depth + 1)
            return -value if sign == "-" else value
        if self._next("(") is not None:
            value = self.read_sum(depth + 1)
            if self._next(")") is None:
                raise NotArithmetic("a parenthesis is not closed")
            return value
        if not self.left or not any(map(str.isdigit, self.left[0])):
            raise NotArithmetic(f"a number is missing before {self.left[0]!r}" if self.left else "a number is missing")
        return _as_fraction(self.left.pop(0))
