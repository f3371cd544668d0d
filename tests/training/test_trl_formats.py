"""A dataset's rows in the formats of TRL's trainers: which row says what, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from training.rows.trl_formats import FORMATS, CannotFormat

LABELLED = {"id": "1", "prompt": "p", "options": ["a", "b"], "answer": "a"}
LOGGED = {"id": "2", "prompt": "p", "options": ["a", "b"], "action": "b", "propensity": 0.5, "reward": 0.0}
TEXT = {"id": "3", "prompt": "P ", "completion": "c", "reward": 0.6}
PAIR = {"id": "4", "prompt": "q", "chosen": "a", "rejected": "b"}


def formatted(name: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    def read() -> Iterator[dict[str, Any]]:
        return iter(rows)

    return list(FORMATS[name](read))


def test_each_row_in_each_format() -> None:
    assert formatted("prompt", LABELLED, LOGGED) == [
        {"id": "1", "prompt": "p", "answer": "a"},
        {"id": "2", "prompt": "p"},
    ]
    assert [row["completion"] for row in formatted("completion", LABELLED, LOGGED, TEXT)] == ["a", "b", "c"]
    assert formatted("messages", TEXT)[0]["messages"] == [
        {"role": "user", "content": "P "},
        {"role": "assistant", "content": "c"},
    ]
    told = TEXT | {"system": "s"}
    system, user, _ = formatted("messages", told)[0]["messages"]
    assert (system, user["role"]) == ({"role": "system", "content": "s"}, "user")
    [chat] = formatted("chat", told)
    assert chat["prompt"] == [system, user] and "system" not in chat
    assert all(formatted(name, told)[0]["system"] == "s" for name in ("prompt", "completion"))
    assert formatted("chat", PAIR)[0]["rejected"] == [{"role": "assistant", "content": "b"}]
    assert formatted("preference", PAIR | {"source": "label"}) == [PAIR]


def test_messages_are_without_what_is_known_to_be_wrong() -> None:
    unknown, wrong = TEXT | {"id": "5", "reward": None}, TEXT | {"id": "6", "reward": 0.0}
    rejected = TEXT | {"id": "7", "reward": 1.0, "right": 0.0}
    kept = formatted("messages", wrong, LABELLED, TEXT, unknown, rejected, LOGGED)
    assert [row["id"] for row in kept] == ["1", "3", "5"]


def test_kto_has_as_many_right_ones_as_wrong_ones() -> None:
    judged = formatted("kto", LABELLED, LOGGED, TEXT, TEXT | {"reward": 0.59}, TEXT | {"reward": None}, PAIR)
    assert sorted(row["label"] for row in judged) == [False, False, False, True, True, True]
    many = [TEXT | {"id": str(n), "reward": 1.0} for n in range(9)]
    judged = formatted("kto", *many, TEXT | {"right": 0.0})
    assert [row["label"] for row in judged] == [True, False] == [row["label"] for row in formatted("kto", PAIR)]
    # What a person said counts before the reward, and a person's own text is right.
    said = [TEXT | {"right": 0.0}, TEXT | {"reward": None, "source": "label"}]
    assert [row["label"] for row in formatted("kto", *said)] == [False, True]


def test_groups_hold_the_rewarded_answers_to_one_question() -> None:
    alone = {"id": "5", "prompt": "alone", "completion": "x", "reward": 1.0}
    assert formatted("groups", LABELLED, LOGGED, alone, TEXT, TEXT | {"reward": None}) == [
        {"id": "2", "prompt": "p", "texts": ["b", "c"], "rewards": [0.0, 0.6]}
    ]


def test_ppo_takes_rewarded_actions_whose_probability_is_known() -> None:
    unknown = LOGGED | {"propensity": None}
    after = {"next_state": {"step": 2}, "done": False}
    found = formatted("ppo", LABELLED, LOGGED | after, unknown, TEXT | {"log_p": -1.5}, LOGGED | {"reward": None})
    assert found == [
        {"id": "2", "prompt": "p", "completion": "b", "logprob": pytest.approx(math.log(0.5)), "reward": 0.0, **after},
        {"id": "3", "prompt": "P ", "completion": "c", "logprob": -1.5, "reward": 0.6, "next_state": None,
         "done": True},
    ]  # fmt: skip


def test_a_negative_that_was_made_up_stays_marked() -> None:
    made_up = {"synthetic": True}
    assert formatted("preference", PAIR | made_up) == [PAIR | made_up]
    judged = formatted("kto", TEXT, LOGGED | made_up, PAIR | made_up)
    assert [(row["label"], "synthetic" in row) for row in judged] == [
        (True, False), (False, True), (True, False), (False, True),
    ]  # fmt: skip


class TestChats:
    """Rows of chats are conversations in TRL's shapes, and so are then the other rows of their file."""

    SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
    TOOLS = [{"type": "function", "function": {"name": "look", "description": "", "parameters": SCHEMA}}]
    MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": "Oslo"}}}
    REPLY = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    CHAT = {"prompt": "System: s\n\nUser: q", "messages": MESSAGES, "tools": TOOLS}
    TEXT = {"id": "6", **CHAT, "completion": "[…]", "reply": REPLY, "reward": 1.0}
    PAIR = {"id": "7", **CHAT, "chosen": "[…]", "chosen_reply": REPLY, "rejected": "no"}
    ASKED = {"prompt": MESSAGES, "tools": TOOLS}
    NO = [{"role": "assistant", "content": "no"}]

    def test_each_conversational_format(self) -> None:
        plain = TEXT | {"system": "s"}
        prompt, other = formatted("prompt", self.TEXT, plain)
        assert prompt == {"id": "6", **self.ASKED}
        asked = [{"role": "system", "content": "s"}, {"role": "user", "content": "P "}]
        assert other == {"id": "3", "prompt": asked}
        whole, one = formatted("messages", self.TEXT, plain)
        assert whole == {"id": "6", "messages": [*self.MESSAGES, self.REPLY], "tools": self.TOOLS}
        assert one["messages"] == [*asked, {"role": "assistant", "content": "c"}]
        assert formatted("chat", self.TEXT) == [{"id": "6", **self.ASKED, "completion": [self.REPLY], "reward": 1.0}]
        pair = {"id": "7", **self.ASKED, "chosen": [self.REPLY], "rejected": self.NO}
        assert formatted("chat", self.PAIR) == formatted("preference", self.PAIR) == [pair]
        assert formatted("preference", PAIR, self.PAIR)[0]["prompt"] == [{"role": "user", "content": "q"}]
        judged = formatted("kto", self.TEXT, TEXT | {"reward": 0.0})
        assert judged[0] == {"id": "6", **self.ASKED, "completion": [self.REPLY], "label": True}
        assert judged[1]["completion"] == [{"role": "assistant", "content": "c"}]
        assert [row["label"] for row in formatted("kto", self.PAIR)] == [True, False]

    def test_completions_are_text_alone(self) -> None:
        assert formatted("completion", self.TEXT) == [
            {"id": "6", "prompt": "System: s\n\nUser: q", "completion": "[…]", "reward": 1.0}
        ]
        assert set(formatted("completion", self.PAIR)[0]) == {"id", "prompt", "chosen", "rejected"}

    def test_groups_are_of_the_whole_chat(self) -> None:
        wrong = self.TEXT | {"id": "8", "completion": "no", "reply": None, "reward": 0.0}
        apart = self.TEXT | {"id": "9", "messages": [self.MESSAGES[1]], "reward": 0.0}
        bare = {name: value for name, value in apart.items() if name != "tools"}
        assert formatted("groups", self.TEXT, apart, bare, wrong) == [
            {"id": "6", **self.ASKED, "texts": ["[…]", "no"], "replies": [self.REPLY, *self.NO], "rewards": [1.0, 0.0]}
        ]


@pytest.mark.parametrize(
    ("name", "rows", "why"),
    [
        ("kto", [TEXT, TEXT], "all are right"),
        ("kto", [LOGGED], "all are wrong"),
        ("kto", [TEXT | {"reward": None}], "nothing is known"),
        ("groups", [TEXT], "no prompt has two"),
        ("ppo", [LABELLED, TEXT], "with their probability"),
        ("preference", [TEXT], "only preference pairs"),
        ("completion", [PAIR | {"chosen": None}], None),
        ("messages", [PAIR], "ask for preference"),
        ("messages", [LOGGED, TEXT | {"right": 0.0}], "every completion is known to be wrong"),
    ],
)
def test_what_the_rows_do_not_hold_is_refused_before_the_first_row(
    name: str, rows: list[dict[str, Any]], why: str | None
) -> None:
    if why is None:
        assert formatted(name, *rows) == rows
        return
    with pytest.raises(CannotFormat, match=why):
        FORMATS[name](lambda: iter(rows))
