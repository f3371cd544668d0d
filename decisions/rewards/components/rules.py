"""Components as one line of text, which a team writes into its reward spec: a small language over facts. PURE.

`1 if measures.latency_ms < 200 else -0.5`: an expression in Python's grammar, of which only what this file names is
known. It is compiled once into closures, never handed to `eval`; no part of it can repeat or grow, so a rule takes as
long as its text is. A fact that nobody knows makes the rule's value unknown, unless the rule asks for it by `is None`
or `default(fact, value)`.

Common Expression Language was tried and not taken: docs/adr/0015-facts-and-components.md says why.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from decisions.rewards.components import COMPONENTS
from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import ComponentError, Facts, Group, Trace

LONGEST_RULE = 2_000
LONGEST_TEXT = 200
MOST_NODES = 200
DEEPEST = 40
USAGE = ("latency_ms", "tokens_in", "tokens_out", "cost")
TRACE = Trace.__struct_fields__
READS: Mapping[str, Group] = {
    "action": "content",
    "state": "content",
    "correction": "correction",
    "usage": "usage",
    "trace": "trace",
}
WHOLE: Mapping[str, Callable[[Facts], Any]] = {
    "confidence": lambda facts: facts.confidence,
    "verdict": lambda facts: facts.verdict,
    "age_days": lambda facts: facts.age / 86_400,
}
BARE = ("action", "state", "correction")
"""Facts that are JSON values themselves: a choice is a text."""
GROUPS = ("measures", "usage", "trace", *BARE)
KNOWN = f"{', '.join(WHOLE)}, and fields of {', '.join(GROUPS)}"
Evaluate = Callable[[Facts], Any]


class InvalidRule(ValueError):
    """The text is no rule. `column` counts from 1, without leading space; `wanted` says what would be right."""

    def __init__(self, fault: str, wanted: str, column: int = 1) -> None:
        super().__init__(f"column {column}: {fault}; expected {wanted}")
        self.fault, self.wanted, self.column = fault, wanted, column


class _Unknown(Exception):
    """Raised while evaluating, where a fact is not known."""


ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS = ("min", "max", "abs", "len", "default")


class Rule:
    """A compiled rule: call it with facts, as any component's function.

    metrics: the measures that it reads. reads: the groups of facts besides. Raises ComponentError where the rule cannot
    have a value: a text where a number is needed, a division by zero, a result outside [low, high].
    """

    __slots__ = ("_evaluate", "high", "low", "metrics", "reads", "text")

    def __init__(
        self, text: str, low: float, high: float, evaluate: Evaluate, metrics: set[str], reads: set[Group]
    ) -> None:
        self.text, self.low, self.high, self._evaluate = text, low, high, evaluate
        self.metrics, self.reads = tuple(sorted(metrics)), frozenset(reads)

    def __call__(self, facts: Facts, parameters: Parameters, /) -> float | None:
        try:
            value = self._evaluate(facts)
        except _Unknown:
            return None
        except ZeroDivisionError:
            raise ComponentError("the rule divides by zero") from None
        if value is None:
            return None
        number = _number(value)
        if not self.low <= number <= self.high:
            raise ComponentError(f"the rule gives {number:g}, outside {self.low:g} to {self.high:g}")
        return number


def compile_rule(text: str, low: float, high: float) -> Rule:
    """The rule as a component's function. Raises InvalidRule with the first fault and its column."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidRule(f"the range is {low:g} to {high:g}", "a finite low below a finite high")
    if len(text) > LONGEST_RULE:
        raise InvalidRule(f"the rule has {len(text)} characters", f"at most {LONGEST_RULE}", LONGEST_RULE + 1)
    source = text.strip()
    if len(source.splitlines()) > 1:
        raise InvalidRule("the rule has several lines", "one line", len(source.splitlines()[0]) + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes in texts
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        column = error.offset or len(source) + 1  # 0 where something is missing at the end
        raise InvalidRule(error.msg, "an expression such as 1 if measures.score > 3 else 0", column) from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidRule("it cannot be read", "an expression that is less deeply nested") from None
    compiler = _Compiler(source)
    return Rule(text, float(low), float(high), compiler.compile(tree, 0), compiler.metrics, compiler.reads)


@functools.lru_cache(maxsize=256)
def rule_component(name: str, text: str, low: float, high: float) -> Component:
    """The component of a rule. Raises InvalidRule."""
    rule = compile_rule(text, low, high)
    return Component(name, "immediate", rule, text, rule.low, rule.high, metrics=rule.metrics, reads=rule.reads)


def component_of(told: Mapping[str, Any]) -> Component:
    """The component of one entry of a spec, as stored: its own rule {text, low, high}, or the one of its name.
    Raises KeyError where that is not installed, InvalidRule where the rule is none."""
    rule = told.get("rule")
    if rule is None:
        return COMPONENTS[told["name"]]
    return rule_component(told["name"], rule["text"], float(rule["low"]), float(rule["high"]))


class _Compiler:
    """Turns each node into a function of facts. What is not named here is refused."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes = 0
        self.metrics: set[str] = set()
        self.reads: set[Group] = set()

    def refuse(self, node: ast.expr, fault: str, wanted: str) -> InvalidRule:
        before = self.source.encode()[: node.col_offset].decode(errors="ignore")
        return InvalidRule(fault, wanted, len(before) + 1)

    def words(self, node: ast.expr) -> str:
        """The first part of what stands there; `ast.unparse` would recurse."""
        return repr(self.source.encode()[node.col_offset : node.end_col_offset].decode(errors="ignore")[:40])

    def compile(self, node: ast.expr, depth: int) -> Evaluate:
        self.nodes += 1
        if self.nodes > MOST_NODES or depth > DEEPEST:
            raise self.refuse(node, "the rule is too long", f"at most {MOST_NODES} parts, nested {DEEPEST} deep")
        match node:
            case ast.Constant():
                constant = self.constant(node)
                return lambda facts: constant
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.fact(node)
            case ast.IfExp():
                test, then, other = (self.compile(one, depth + 1) for one in (node.test, node.body, node.orelse))
                return lambda facts: then(facts) if _truth(test(facts)) else other(facts)
            case ast.BoolOp():
                return self.logic(node, depth)
            case ast.UnaryOp():
                return self.unary(node, depth)
            case ast.BinOp():
                return self.arithmetic(node, depth)
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.Call():
                return self.call(node, depth)
        raise self.refuse(node, f"{self.words(node)} is not allowed", "numbers, facts, comparisons, if … else")

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, str):
            if len(value) > LONGEST_TEXT:
                raise self.refuse(node, f"a text has {len(value)} characters", f"at most {LONGEST_TEXT}")
            return value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)) and abs(value) <= 1e15:
            return float(value)
        raise self.refuse(
            node, "this value is not allowed", "a number up to 1e15, a text in quotes, True, False or None"
        )

    def fact(self, node: ast.expr) -> Evaluate:
        """A name, or fields below one: action.priority, measures["code-quality"], action.findings[0].type."""
        path: list[str | int] = []
        inner = node
        while not isinstance(inner, ast.Name):
            self.nodes += 1
            if isinstance(inner, ast.Attribute):
                key: Any = inner.attr
            elif isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
                key = inner.slice.value
            else:
                raise self.refuse(inner, f"{self.words(inner)} is no fact", KNOWN)
            if type(key) not in (str, int) or (
                isinstance(key, str) and (key.startswith("_") or len(key) > LONGEST_TEXT)
            ):
                raise self.refuse(
                    inner, f"{key!r} is no field", "the name of a field, without a leading _, or a number"
                )
            path.insert(0, key)
            inner = inner.value
        name = inner.id
        if name in WHOLE and not path:
            self.metrics |= {name} & {"verdict"}
            return WHOLE[name]
        if name not in GROUPS or not (path or name in BARE):
            raise self.refuse(inner, f"{name!r} is no fact", KNOWN)
        if name in READS:
            self.reads.add(READS[name])
        if name in BARE:
            return _follow(operator.attrgetter(name), path)
        first, rest = path[0], path[1:]
        if name == "trace" and first == "measures" and rest:
            return _follow(lambda facts: None if facts.trace is None else facts.trace.measures, rest)
        if name in {"usage", "trace"}:
            fields = USAGE if name == "usage" else TRACE
            if first not in fields or rest:
                raise self.refuse(node, f"{name} has no {first!r}", f"one of {', '.join(fields)}")
            return _of_usage(str(first)) if name == "usage" else _of_trace(str(first))
        self.metrics.add(str(first))
        return _follow(lambda facts: facts.measures, path)

    def logic(self, node: ast.BoolOp, depth: int) -> Evaluate:
        parts = [self.compile(one, depth + 1) for one in node.values]
        if isinstance(node.op, ast.And):
            return lambda facts: all(_truth(part(facts)) for part in parts)
        return lambda facts: any(_truth(part(facts)) for part in parts)

    def unary(self, node: ast.UnaryOp, depth: int) -> Evaluate:
        inner = self.compile(node.operand, depth + 1)
        if isinstance(node.op, ast.Not):
            return lambda facts: not _truth(inner(facts))
        if isinstance(node.op, ast.USub):
            return lambda facts: -_number(inner(facts))
        raise self.refuse(node, "this sign is not allowed", "- or not")

    def arithmetic(self, node: ast.BinOp, depth: int) -> Evaluate:
        apply = ARITHMETIC.get(type(node.op))
        if apply is None:
            raise self.refuse(node, f"{self.words(node)} is not allowed", "+, -, * or /")
        left, right = self.compile(node.left, depth + 1), self.compile(node.right, depth + 1)
        return lambda facts: apply(_number(left(facts)), _number(right(facts)))

    def comparison(self, node: ast.Compare, depth: int) -> Evaluate:
        if len(node.ops) > 1:
            raise self.refuse(node, "several comparisons in a row", "two comparisons joined by and")
        operation, other = node.ops[0], node.comparators[0]
        left = self.compile(node.left, depth + 1)
        if isinstance(operation, (ast.Is, ast.IsNot)):
            if not (isinstance(other, ast.Constant) and other.value is None):
                raise self.refuse(other, "`is` compares with None only", "is None, is not None or ==")
            wanted = isinstance(operation, ast.Is)
            return lambda facts: (_or_none(left, facts) is None) == wanted
        if isinstance(operation, (ast.In, ast.NotIn)):
            right = self.collection(other, depth)
            inside = isinstance(operation, ast.In)
            return lambda facts: _contains(right(facts), _known(left(facts))) == inside
        right = self.compile(other, depth + 1)
        if isinstance(operation, (ast.Eq, ast.NotEq)):
            same = isinstance(operation, ast.Eq)
            return lambda facts: (_known(left(facts)) == _known(right(facts))) == same
        apply = ORDER[type(operation)]
        return lambda facts: apply(_number(left(facts)), _number(right(facts)))

    def collection(self, node: ast.expr, depth: int) -> Evaluate:
        """What may stand behind `in`: constants in brackets, or a fact."""
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            self.nodes += len(node.elts)
            if not all(isinstance(one, ast.Constant) for one in node.elts):
                raise self.refuse(node, "the brackets hold more than constants", 'constants, such as ("HIGH", "LOW")')
            constants = [self.constant(one) for one in node.elts if isinstance(one, ast.Constant)]
            return lambda facts: constants
        return self.compile(node, depth + 1)

    def call(self, node: ast.Call, depth: int) -> Evaluate:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise self.refuse(node, f"{self.words(node)} is not allowed", f"one of {', '.join(FUNCTIONS)}")
        parts = [self.compile(one, depth + 1) for one in node.args]
        count = {"abs": 1, "len": 1, "default": 2}.get(name)
        if len(parts) != count if count else len(parts) < 2:
            raise self.refuse(node, f"{name} has {len(parts)} arguments", str(count) if count else "two or more")
        first = parts[0]
        if name == "default":
            return lambda facts: parts[1](facts) if (found := _or_none(first, facts)) is None else found
        if name == "len":
            return lambda facts: float(_length(_known(first(facts))))
        if name == "abs":
            return lambda facts: abs(_number(first(facts)))
        apply = min if name == "min" else max
        return lambda facts: apply(_number(part(facts)) for part in parts)


def _known(value: Any) -> Any:
    if value is None:
        raise _Unknown
    return value


def _or_none(evaluate: Evaluate, facts: Facts) -> Any:
    try:
        return evaluate(facts)
    except _Unknown:
        return None


def _number(value: Any) -> float:
    """True and false are 1 and 0."""
    if value is None:
        raise _Unknown
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            raise ComponentError("the rule meets a number that is too large") from None
    raise ComponentError(f"the rule needs a number and finds {str(value)[:40]!r}")


def _truth(value: Any) -> bool:
    if value is None:
        raise _Unknown
    if isinstance(value, bool):
        return value
    raise ComponentError(f"the rule needs true or false and finds {str(value)[:40]!r}")


def _length(value: Any) -> int:
    if isinstance(value, (str, Sequence, Mapping)):
        return len(value)
    raise ComponentError(f"the rule needs a text or a list and finds {str(value)[:40]!r}")


def _contains(there: Any, wanted: Any) -> bool:
    if isinstance(there, str):
        return isinstance(wanted, str) and wanted in there
    if there is None:
        raise _Unknown
    if isinstance(there, (Sequence, Mapping)):
        return any(one == wanted for one in there)
    raise ComponentError(f"the rule looks into {str(there)[:40]!r}, neither a text nor a list")


def _of_usage(name: str) -> Evaluate:
    return operator.attrgetter(name)


def _of_trace(name: str) -> Evaluate:
    def get(facts: Facts) -> Any:
        return None if facts.trace is None else getattr(facts.trace, name)

    return get


def _follow(start: Callable[[Facts], Any], path: Sequence[str | int]) -> Evaluate:
    """The value at the path, None where there is none."""

    def get(facts: Facts) -> Any:
        value = start(facts)
        for key in path:
            if isinstance(key, str):
                value = value.get(key) if isinstance(value, Mapping) else None
            else:
                value = value[key] if isinstance(value, (list, tuple)) and key < len(value) else None
        return value

    return get
