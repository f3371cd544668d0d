"""Decodes a body's bytes into typed items, with one precise fault for each item that is not usable."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from decisions.answer_ids import CHAT, FORMS, MESSAGE, RESPONSE, read_decision_id
from decisions.ingest.schemas import MAX_ITEMS, ROUNDING
from workspaces.errors import FieldFault, InvalidInput, ReckonerError, TooLarge
from workspaces.http.list_items import FaultyList, split_list
from workspaces.http.parsing import MAX_BATCH, MAX_BODY, check_body

T = TypeVar("T")
BROKEN = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises for what is no JSON."""
SHARES = ("propensity", "epsilon", "confidence")
"""Fields of a decision that are probabilities, as those of its alternatives are."""
PATH = re.compile(r"^(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why item `index` of a batch was not kept; the others were."""

    index: int
    code: str
    faults: tuple[FieldFault, ...]

    @classmethod
    def of(cls, index: int, error: ReckonerError) -> ItemError:
        return cls(index, error.code, error.faults or (FieldFault("", error.message),))

    def as_plain(self) -> dict[str, Any]:
        """Without the index, as the API sends it."""
        return {
            "code": self.code,
            "fields": [{"field": f.field, "reason": f.reason, "expected": f.expected} for f in self.faults],
        }


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """`items` are (index, item) pairs of what could be read; `single` when the body was one object."""

    items: list[tuple[int, T]]
    errors: list[ItemError]
    single: bool


def fault_of(error: msgspec.ValidationError) -> FieldFault:
    """msgspec's "Expected `float` <= 1.0 - at `$.propensity`" as a fault with its path."""
    match = PATH.match(str(error))
    reason, path = (match.group("reason"), match.group("path") or "") if match else (str(error), "")
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return FieldFault(f"{path}.{missing.group(1)}".lstrip("."), "is missing", "a value")
    if unknown := re.search(r"unknown field `(.+?)`", reason):
        return FieldFault(
            f"{path}.{unknown.group(1)}".lstrip("."), "is not a known field", "one of the documented fields"
        )
    if reason == "Invalid UUID":
        return FieldFault(path.lstrip("."), reason, FORMS if path.endswith(f".{DECISION}") else "a UUID")
    return FieldFault(
        path.lstrip("."),
        reason,
        reason.split(", got")[0].removeprefix("Expected ") if reason.startswith("Expected") else "",
    )


DECISION = "decision_id"


def has_answer_id(fields: Any) -> bool:
    """Whether an item names its decision in another form than ours."""
    name = fields.get(DECISION) if isinstance(fields, dict) else None
    return isinstance(name, str) and name.startswith((CHAT, RESPONSE, MESSAGE))


def with_plain_id(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the id of the decision as we write it; what is no id at all stays, for the faults to tell."""
    with contextlib.suppress(ValueError):
        return {**fields, DECISION: str(read_decision_id(fields[DECISION]))}
    return fields


def rounded(fields: Any) -> Any:
    """An item in which probabilities above 1 by no more than ROUNDING are 1."""
    if not isinstance(fields, dict):
        return fields
    read = {name: _at_most_one(fields[name]) for name in SHARES if name in fields}
    if isinstance(others := fields.get("alternatives"), list):
        name = "probability"
        read["alternatives"] = [
            {**one, name: _at_most_one(one[name])} if isinstance(one, dict) and name in one else one for one in others
        ]
    return {**fields, **read}


def _at_most_one(value: Any) -> Any:
    return 1.0 if isinstance(value, float) and 1.0 < value <= 1.0 + ROUNDING else value


class BodyDecoder(Generic[T]):
    """Decodes one object or a list of up to 1,000. The list is decoded in one go; item by item only when that fails."""

    def __init__(self, item_type: type[T]) -> None:
        self._typed = msgspec.json.Decoder(item_type)
        self._many = msgspec.json.Decoder(list[item_type])  # type: ignore[valid-type]
        self._raw = msgspec.json.Decoder(list[msgspec.Raw])

    def decode(self, body: bytes) -> Batch[T]:
        """Raises InvalidInput for what is not JSON, for an empty or too long list, and for one unusable object;
        TooLarge for one object of more than 1 MB."""
        start = body.lstrip()[:1]
        try:
            if start != b"[":
                return self._decode_single(body)
            if isinstance(body, FaultyList):
                return self._decode_items(body)
            return self._decode_list(body)
        except BROKEN as error:
            if start == b"[":
                return self._decode_items(body)
            raise InvalidInput(f"The body is not valid JSON: {error}") from error

    def _decode_single(self, body: bytes) -> Batch[T]:
        if not body.strip():
            raise InvalidInput("The body is empty; send one object or a list of objects.")
        if len(body) > MAX_BODY:
            raise TooLarge(f"The object has {len(body)} bytes; at most {MAX_BODY} are allowed outside a list.")
        try:
            return Batch([(0, self._decode_item(body))], [], single=True)
        except msgspec.ValidationError as error:
            raise InvalidInput("Some fields are invalid.", faults=[fault_of(error)]) from error

    def _decode_list(self, body: bytes) -> Batch[T]:
        try:
            items = self._many.decode(body)
            self._check_count(len(items))
            return Batch(list(enumerate(items)), [], single=False)
        except msgspec.ValidationError:
            raws = self._raw.decode(body)
        self._check_count(len(raws))
        good: list[tuple[int, T]] = []
        errors: list[ItemError] = []
        for index, raw in enumerate(raws):
            try:
                good.append((index, self._decode_item(raw)))
            except msgspec.ValidationError as error:
                errors.append(ItemError(index, "invalid_input", (fault_of(error),)))
        return Batch(good, errors, single=False)

    def _decode_item(self, item: bytes | msgspec.Raw) -> T:
        """Decodes an item as it is and, only if that fails, once more with ids in the gateway's form and rounded
        probabilities read: both are rare. Raises msgspec.ValidationError."""
        try:
            return self._typed.decode(item)
        except msgspec.ValidationError:
            fields = msgspec.json.decode(item)
            repaired = rounded(with_plain_id(fields) if has_answer_id(fields) else fields)
            if repaired == fields:
                raise
            return self._typed.decode(msgspec.json.encode(repaired))

    def _decode_items(self, body: bytes) -> Batch[T]:
        """Each item by itself: what is wrong with one, even if it is no JSON, leaves the others."""
        items = split_list(body, MAX_ITEMS)
        self._check_count(len(items))
        good: list[tuple[int, T]] = []
        errors: list[ItemError] = []
        for index, item in enumerate(items):
            try:
                check_body(item, limit=MAX_BATCH)
                good.append((index, self._decode_item(item)))
            except ReckonerError as error:
                fault = FieldFault("", error.message.replace("The body", "The item"))
                errors.append(ItemError(index, "invalid_input", (fault,)))
            except msgspec.ValidationError as error:
                errors.append(ItemError(index, "invalid_input", (fault_of(error),)))
            except BROKEN as error:
                errors.append(ItemError(index, "invalid_input", (FieldFault("", f"is not valid JSON: {error}"),)))
        return Batch(good, errors, single=False)

    @staticmethod
    def _check_count(count: int) -> None:
        if not 1 <= count <= MAX_ITEMS:
            raise InvalidInput(
                f"The list has {count} items.", faults=[FieldFault("", f"{count} items", f"1 to {MAX_ITEMS} items")]
            )
