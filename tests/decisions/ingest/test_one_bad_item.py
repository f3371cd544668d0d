"""Wherever a list comes in, one bad item is refused alone, and its neighbours are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decisions.ingest.schemas import MAX_ITEMS
from decisions.models import Decision, Episode, Feedback, StatusChange, Step
from tests.decisions.conftest import body, verdict
from tools.factories import DecisionFactory
from workspaces.errors import InvalidInput
from workspaces.http.list_items import split_list

BAD = {
    "nul": (r'"cut \u0000"', "contains a NUL character"),
    "raw nul": ('"cut \0"', "contains a NUL character"),
    "half a pair": (r'"cut \ud83d"', "contains a lone surrogate"),
    "a raw surrogate": ('"cut \ud83d"', "is not valid JSON"),
    "an integer beyond 64 bits": ("9223372036854775808", "does not fit into 64 bits"),
    "nan": ("NaN", "is not valid JSON"),
    "infinity": ("Infinity", "is not valid JSON"),
    "too deep": ("[" * 40 + "]" * 40, "is nested deeper than 32 levels"),
    "much too deep": ("[" * 5000 + "]" * 5000, "is nested deeper than 32 levels"),
    "no json": ("tru", "is not valid JSON"),
}


@pytest.mark.django_db
class TestEveryList:
    @pytest.fixture
    def lists(self, agent: Any) -> dict[str, tuple[Any, list[dict[str, Any]], str]]:
        """By path: what is stored, two good items, and a text's field of the items, in which something bad stands."""
        decision = DecisionFactory(agent=agent)
        steps = [{"kind": "span", "agent": "filer", "episode": "e", "number": n, "result": "r"} for n in range(2)]
        episodes = [{"agent": "filer", "episode": f"e{n}", "query": "q"} for n in range(2)]
        changes = [{"item_ref": f"n{n}", "status": "ACTIVE", "title": "t"} for n in range(2)]
        marks = [verdict(decision.id) | {"metric": f"stars{n}", "value": "x"} for n in range(2)]
        decisions = [body(state={"text": f"t{n}"}, reasoning="r") for n in range(2)]
        return {
            "decisions": (Decision, decisions, "reasoning"),
            "feedback": (Feedback, marks, "value"),
            "steps": (Step, steps, "result"),
            "episodes": (Episode, episodes, "query"),
            "status-changes": (StatusChange, changes, "title"),
        }

    @pytest.mark.parametrize("path", ["decisions", "feedback", "steps", "episodes", "status-changes"])
    def test_the_bad_ones_are_refused_alone(self, api: Any, lists: Any, path: str) -> None:
        model, (first, last), field = lists[path]
        before, client = model.objects.count(), api()
        bad = [json.dumps(first | {field: "HERE"}).replace('"HERE"', value) for value, _ in BAD.values()]
        sent = "[" + ", ".join([json.dumps(first), *bad, json.dumps(last)]) + "]"
        answer = client.request("POST", path, sent.encode("utf-8", "surrogatepass"))
        assert answer.status_code == 207, answer.content
        told = answer.json()
        assert model.objects.count() - before == 2 and len(told["kept"]) == 2
        assert [error["index"] for error in told["errors"]] == list(range(1, len(BAD) + 1))
        for error, (_, reason) in zip(told["errors"], BAD.values(), strict=True):
            assert reason in error["fields"][0]["reason"], error

    def test_one_by_itself_and_a_list_that_does_not_end_are_refused_whole(self, api: Any, agent: Any) -> None:
        item = json.dumps(body())
        for sent in (item.replace("a flight", r"\ud83d"), f"[{item}, {item}", f"[{item}]]", f"[{item}}}]", "[\0]"):
            answer = api().request("POST", "decisions", sent.encode())
            assert answer.status_code in (400, 207) and not Decision.objects.exists(), answer.content

    def test_an_agent_without_a_model_says_so_where_one_of_several_is_bad(self, api: Any, agent: Any) -> None:
        item = json.dumps({"state": {"text": "x"}})
        answer = api().request("POST", "agents/filer/decide", f"[{item}, {item[:-3]}\\ud83d{item[-3:]}]".encode())
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_champion")

    def test_an_agent_asked_to_decide_on_bad_ones_names_them(self, api: Any, agent: Any) -> None:
        item = json.dumps({"state": {"text": "x"}})
        bad = f"{item[:-3]}\\ud83d{item[-3:]}"
        answer = api().request("POST", "agents/filer/decide", f"[{bad}, {bad}]".encode())
        assert answer.status_code == 400, answer.content
        fields = [fault["field"].partition(".")[0] for fault in answer.json()["error"]["fields"]]
        assert fields == ["items[0]", "items[1]"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("[]", []),
        (" [ ] \n", []),
        ("[1]", ["1"]),
        (r' [{"a": [1, 2]}, "x,]\"", [[]] ,tru] ', ['{"a": [1, 2]}', r'"x,]\""', "[[]]", "tru"]),
        ("[1,]", ["1", ""]),
        ("[,]", ["", ""]),
    ],
)
def test_a_list_is_cut_between_its_items(text: str, items: list[str]) -> None:
    assert split_list(text.encode(), MAX_ITEMS) == [item.encode() for item in items]


@pytest.mark.parametrize("text", ["", "{}", "[", "[1", "[1]]", "[1}", '["a]', "[1] 2", "[[1]"])
def test_what_is_no_whole_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        split_list(text.encode(), MAX_ITEMS)


def test_no_more_than_one_item_too_many_is_cut() -> None:
    assert len(split_list(b"[" + b"1," * 10_000 + b"1]", 3)) == 4
