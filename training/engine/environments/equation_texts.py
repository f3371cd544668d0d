"""Linear equations of whole numbers, and how people write them. No torch. `equations` acts on them."""

from __future__ import annotations

import re
from typing import NamedTuple

LARGEST = 1_000_000
LONGEST_SHOWN = 60
_TERM = re.compile(r"([+-]?)(?:(\d{1,9})\*?(x)|(x)|(\d{1,9}))(?!\d)")
_WORDS = re.compile(r"(\d{1,9}) times a number (?:(plus|minus) (\d{1,9}) )?is (-?\d{1,9})")
_EXAMPLE = "write it as '3x + 7 = 16' or '3 times a number plus 7 is 16'"


class Equation(NamedTuple):
    """`factor` · x + `shift` = `right`."""

    factor: int
    shift: int
    right: int

    def __str__(self) -> str:
        x = "x" if self.factor == 1 else f"{self.factor}x"
        shift = f" {'+' if self.shift > 0 else '-'} {abs(self.shift)}" if self.shift else ""
        return f"{x}{shift} = {self.right}"

    def is_solved_by(self, number: int) -> bool:
        return self.factor * number + self.shift == self.right

    def add(self, number: int) -> Equation:
        return self._replace(shift=self.shift + number, right=self.right + number)

    def divide(self, number: int) -> Equation:
        """Both sides divided; the same where that would leave a fraction."""
        if any(term % number for term in self):
            return self
        return Equation(self.factor // number, self.shift // number, self.right // number)


def in_words(equation: Equation) -> str:
    more = f"plus {equation.shift}" if equation.shift > 0 else f"minus {-equation.shift}"
    return f"{equation.factor} times a number {more} is {equation.right}"


def read_equation(text: str) -> tuple[Equation, bool]:
    """The equation, and whether it was told in words. x may stand on either side, in either case, `*` and any
    spaces. Raises ValueError that says what is wrong, also where x is no whole number: every step stays whole."""
    shown = repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")
    plain = " ".join(text.replace("\N{MINUS SIGN}", "-").strip().rstrip(".?").lower().split()).removeprefix("solve ")
    if (told := _WORDS.fullmatch(plain)) is not None:
        shift = int(told[3] or 0) * (-1 if told[2] == "minus" else 1)
        if not shift:
            raise ValueError(f"{shown}: something must be added or taken away; {_EXAMPLE}")
        return _check(Equation(int(told[1]), shift, int(told[4])), shown), True
    left, equals, right = plain.replace(" ", "").partition("=")
    if not equals:
        raise ValueError(f"{shown} has no equals sign; {_EXAMPLE}")
    (factor, shift), (other, number) = _read_side(left, shown), _read_side(right, shown)
    if factor and other:
        raise ValueError(f"{shown} has x on both sides; {_EXAMPLE}")
    if other:
        factor, shift, number = other, number, shift
    return _check(Equation(factor, shift, number), shown), False


def _read_side(side: str, shown: str) -> tuple[int, int]:
    """The factor of x, and the number beside it."""
    factor, number, at = 0, 0, 0
    while at < len(side):
        term = _TERM.match(side, at)
        if term is None or (at and not term[1]):
            raise ValueError(f"{shown} cannot be read at {side[at:][:20]!r}; {_EXAMPLE}")
        sign = -1 if term[1] == "-" else 1
        if term[3] or term[4]:
            factor += sign * int(term[2] or 1)
        else:
            number += sign * int(term[5])
        at = term.end()
    if not side:
        raise ValueError(f"{shown} has nothing on one side of the equals sign; {_EXAMPLE}")
    return factor, number


def _check(equation: Equation, shown: str) -> Equation:
    if equation.factor < 1:
        raise ValueError(f"{shown} must have a positive number of x; {_EXAMPLE}")
    if any(abs(term) > LARGEST for term in equation):
        raise ValueError(f"{shown} has a number beyond {LARGEST:,}")
    difference = equation.right - equation.shift
    if difference % equation.factor:
        raise ValueError(f"{shown}: x would be {difference}/{equation.factor}, and must be a whole number")
    return equation
