"""Linear equations, and how people write them. No torch. `equations` acts on them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import NamedTuple

from training.engine.environments.linear_texts import LONGEST, Linear, NotLinear, read_expression

LARGEST = 1_000_000
LONGEST_SHOWN = 60
_WORDS = re.compile(r"(\d{1,9}) times a number (?:(plus|minus) (\d{1,9}) )?is (-?\d{1,9})", re.ASCII)
_WORD = re.compile(r"([a-z]+)([:,]?) *", re.ASCII)
_REQUEST = frozenset(
    (
        *("please", "solve", "find", "determine", "calculate", "compute", "what", "is", "the", "value", "of", "linear"),
        *("equation", "for", "in", "if", "when", "where", "from", "given", "such", "that"),
    )
)
"""Words that ask for a solution, before the equation."""
_AFTER = re.compile(r" for ([a-z])", re.ASCII)
_EXAMPLE = "write it as '3x + 7 = 16' or '3 times a number plus 7 is 16'"


class Equation(NamedTuple):
    """`factor` · x + `shift` = `right`. All are whole, but where x stands alone `right` may be a fraction."""

    factor: int
    shift: int
    right: int | Fraction

    def __str__(self) -> str:
        x = "x" if self.factor == 1 else f"{self.factor}x"
        shift = f" {'+' if self.shift > 0 else '-'} {abs(self.shift)}" if self.shift else ""
        return f"{x}{shift} = {self.right}"

    @property
    def largest(self) -> Fraction:
        """Of its numbers, without their signs."""
        return max(abs(Fraction(term)) for term in (self.factor, self.shift, self.right))

    def is_solved_by(self, number: int | Fraction) -> bool:
        return self.factor * number + self.shift == self.right

    def add(self, number: int) -> Equation:
        return self._replace(shift=self.shift + number, right=self.right + number)

    def divide(self, number: int) -> Equation:
        """Both sides divided; the same where that would leave a fraction, unless it leaves x alone."""
        if number == self.factor and not self.shift:
            right = Fraction(self.right) / number
            return Equation(1, 0, int(right) if right.denominator == 1 else right)
        if any(term % number for term in self):
            return self
        return Equation(self.factor // number, self.shift // number, self.right // number)


class ReadEquation(NamedTuple):
    """What a text says. `text`: in one way of writing, as an agent is told it. `is_set_up`: it says so in this form;
    else brackets, fractions or words are to be worked out first."""

    equation: Equation
    text: str
    is_set_up: bool
    in_words: bool = False


def in_words(equation: Equation) -> str:
    more = f"plus {equation.shift}" if equation.shift > 0 else f"minus {-equation.shift}"
    return f"{equation.factor} times a number {more} is {equation.right}"


def read_equation(text: str) -> ReadEquation:
    """One linear equation of one unknown, which may have any letter and stand on both sides, with brackets, fractions
    and decimals; or one told in words. "Solve for y:" and the like may stand before it. Raises ValueError that says
    what is wrong."""
    if len(text) > LONGEST:
        raise ValueError(f"{_show(text)} has {len(text)} characters, more than {LONGEST}")
    shown = _show(text)
    plain = " ".join(text.replace("\N{MINUS SIGN}", "-").strip().rstrip(".?!").lower().split())
    if (told := _WORDS.fullmatch(plain.removeprefix("solve "))) is not None:
        return _read_words(told, shown)
    plain, wanted = _take_off_request(plain)
    sides = plain.split("=")
    if len(sides) != 2:
        count = "no equals sign" if len(sides) < 2 else f"{len(sides) - 1} equals signs"
        raise ValueError(f"{shown} has {count}; {_EXAMPLE}")
    try:
        left, right = map(read_expression, sides)
    except NotLinear as error:
        raise ValueError(f"{shown} {error}; {_EXAMPLE}") from error
    unknowns = left.unknowns | right.unknowns
    if len(unknowns) != 1:
        listed = f"more than one unknown: {', '.join(sorted(unknowns))}" if unknowns else "no unknown"
        raise ValueError(f"{shown} has {listed}; {_EXAMPLE}")
    if wanted and wanted not in unknowns:
        raise ValueError(f"{shown} is to be solved for {wanted}, but its unknown is {min(unknowns)}")
    as_it_stands = _find_standing(left.value, right.value) if left.is_sum and right.is_sum else None
    equation = as_it_stands or _collect(left.value, right.value, shown)
    if equation.largest > LARGEST:
        raise ValueError(f"{shown} has a number beyond {LARGEST:,}")
    written = str(equation) if as_it_stands else f"{left.written} = {right.written}"
    return ReadEquation(equation, written, is_set_up=as_it_stands is not None)


def _show(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")


def _read_words(told: re.Match[str], shown: str) -> ReadEquation:
    shift = int(told[3] or 0) * (-1 if told[2] == "minus" else 1)
    if not shift:
        raise ValueError(f"{shown}: something must be added or taken away; {_EXAMPLE}")
    equation = Equation(int(told[1]), shift, int(told[4]))
    if not equation.factor:
        raise ValueError(f"{shown} has no unknown; {_EXAMPLE}")
    if equation.largest > LARGEST:
        raise ValueError(f"{shown} has a number beyond {LARGEST:,}")
    return ReadEquation(equation, in_words(equation), is_set_up=False, in_words=True)


def _take_off_request(plain: str) -> tuple[str, str]:
    """The equation alone, and the unknown that it is to be solved for; empty where none is named."""
    wanted, before = "", ""
    while (found := _WORD.match(plain)) is not None and (found[1] in _REQUEST or len(found[1]) == 1):
        word, colon = found[1], found[2]
        rest = plain[found.end() :]
        if word not in _REQUEST:
            follows = _WORD.match(rest)
            if before != "for" and not colon and (follows is None or follows[1] not in _REQUEST):
                break  # the equation begins
            wanted = word
        plain, before = rest, word
    left, equals, right = plain.rpartition("=")
    if equals and (cut := right.rfind(" for ")) >= 0 and (after := _AFTER.fullmatch(right[cut:])) is not None:
        plain, wanted = f"{left}={right[:cut].rstrip(',')}", after[1]
    return plain, wanted


def _find_standing(left: Linear, right: Linear) -> Equation | None:
    """Of sums of whole numbers with a positive number of x on one side alone: nothing has to be worked out."""
    if left.factor and right.factor:
        return None
    near, far = (left, right) if left.factor else (right, left)
    return Equation(int(near.factor), int(near.number), int(far.number)) if near.factor > 0 else None


def _collect(left: Linear, right: Linear, shown: str) -> Equation:
    """x on the left with a positive whole factor, a whole number beside it and one on the right."""
    factor = left.factor - right.factor
    if not factor:
        if left.number == right.number:
            raise ValueError(f"{shown} is true of every number: it has no single solution")
        raise ValueError(f"{shown} has no solution: the unknown cancels out")
    # Numbers stay on the side that they were written on.
    sign = 1 if factor > 0 else -1
    terms = [sign * factor, sign * left.number, sign * right.number]
    scale = math.lcm(*(term.denominator for term in terms))
    return Equation(*(int(term * scale) for term in terms))
