"""Changing an agent: who is told that the version moved on, what counts as a change, and the comparison of two."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.agents.differences import MOST_LINES, compare_lines, compare_setups
from decisions.agents.revising import rebase_setup, revise_agent, setup_of
from decisions.agents.services import AgentSetup
from decisions.errors import OutdatedVersion
from decisions.models import AgentVersion
from workspaces.models import AuditEntry


def base() -> AgentSetup:
    return AgentSetup(prompt_template="one\ntwo\nthree", options=["a", "b"])


def test_what_both_left_alone_is_the_newest_and_what_one_changed_stays_theirs() -> None:
    mine = AgentSetup(prompt_template="one\ntwo\nthree", options=["a", "b"], epsilon=0.2, temperature=0.5)
    newest = AgentSetup(prompt_template="other", options=["a", "b", "c"], epsilon=0.3)
    merged = rebase_setup(base=base(), mine=mine, newest=newest)
    assert merged == AgentSetup(prompt_template="other", options=["a", "b", "c"], epsilon=0.2, temperature=0.5)


class TestComparing:
    def test_lines_have_their_numbers_on_both_sides(self) -> None:
        found = compare_lines(["one", "two", "three"], ["one", "2", "three"])
        assert [(line.kind, line.text, line.old, line.new) for line in found] == [
            ("same", "one", 1, 1),
            ("removed", "two", 2, None),
            ("added", "2", None, 2),
            ("same", "three", 3, 3),
        ]

    def test_long_unchanged_stretches_are_left_out_and_counted(self) -> None:
        old = [str(number) for number in range(20)]
        found = compare_lines(old, [*old[:10], "new", *old[10:]])
        assert [line.hidden for line in found if line.kind == "gap"] == [7, 7]
        assert [line.text for line in found if line.kind == "added"] == ["new"]
        assert compare_lines(old, old) == ()

    def test_each_field_that_differs_is_told_with_its_counts(self) -> None:
        schema = {"type": "object"}
        new = AgentSetup(
            prompt_template="one\n2\nthree", options=["a", "b", "c"], epsilon=0.1, state_schema=schema,
            system_prompt="File notes.\nBe quick.",
        )  # fmt: skip
        found = {one.title: (one.removed, one.added) for one in compare_setups(base(), new)}
        assert found == {
            "Prompt": (1, 1), "System prompt": (0, 2), "Options": (0, 1), "State schema": (1, 3), "Epsilon": (1, 1)
        }  # fmt: skip
        assert compare_setups(base(), base()) == []

    def test_what_is_too_long_is_counted_alone(self) -> None:
        long = AgentSetup(prompt_template="x\n" * MOST_LINES, options=["a", "b"])
        (found,) = compare_setups(base(), long)
        assert (found.lines, found.removed, found.added) == ((), 3, MOST_LINES + 1)


@pytest.mark.django_db
class TestOverTheApi:
    def test_a_change_is_the_next_version_and_keeps_the_rest(self, api: Any, agent: Any) -> None:
        answer = api("export:read").get("agents/filer")
        assert answer.status_code == 200 and answer.headers["ETag"] == '"1"'
        before = answer.json()
        assert before["current"]["number"] == before["version"] == 1 and before["champion"] is None
        after = api().request("PATCH", "agents/filer", {"expected_version": 1, "epsilon": 0.25})
        assert after.status_code == 200 and after.headers["ETag"] == '"2"', after.content
        assert after.json()["version"] == 2
        kept = set(before["current"]) - {"id", "number", "created_at", "epsilon"}
        assert {name: after.json()["current"][name] for name in kept} == {
            name: before["current"][name] for name in kept
        }
        assert after.json()["current"]["epsilon"] == 0.25
        assert AgentVersion.objects.get(agent=agent, number=1).epsilon == before["current"]["epsilon"]
        entry = AuditEntry.objects.filter(action="agent_version.created").latest("id")
        assert entry.details == {"agent": "filer", "number": 2, "changed": ["epsilon"]}

    def test_what_was_read_and_is_sent_back_makes_no_version(self, api: Any, agent: Any, by: Any) -> None:
        changes = {"prompt_template": " {{ text }} \n", "temperature": 2.0, "system_prompt": " File notes.\n"}
        revise_agent(by=by, agent=agent, expected=1, changes=changes)
        current = api().get("agents/filer").json()["current"]
        same = {name: value for name, value in current.items() if name not in {"id", "number", "created_at"}}
        answer = api().request("PATCH", "agents/filer", same, **{"If-Match": '"2"'})
        assert answer.status_code == 200 and answer.json()["version"] == 2, answer.content
        assert agent.versions.count() == 2

    def test_the_second_of_two_is_told_and_changes_nothing(self, api: Any, agent: Any) -> None:
        client = api()
        assert client.request("PATCH", "agents/filer", {"epsilon": 0.1}, **{"If-Match": '"1"'}).status_code == 200
        for body, headers in (({"expected_version": 1, "epsilon": 0.2}, {}), ({"epsilon": 0.2}, {"If-Match": "1"})):
            answer = client.request("PATCH", "agents/filer", body, **headers)
            assert answer.status_code == 409, answer.content
            error = answer.json()["error"]
            assert error["code"] == "outdated_version"
            assert error["fields"] == [
                {"field": "expected_version", "reason": "1 is not the current version", "expected": "2"}
            ]
        assert agent.versions.count() == 2

    @pytest.mark.parametrize(
        ("body", "headers", "field"),
        [
            ({"epsilon": 0.2}, {}, "expected_version"),
            ({"epsilon": 0.2, "expected_version": 1}, {"If-Match": '"2"'}, "If-Match"),
            ({"epsilon": 0.2}, {"If-Match": 'W/"1"'}, "If-Match"),
            ({"epsilon": 2, "expected_version": 1}, {}, "epsilon"),
            ({"options": ["a"], "expected_version": 1}, {}, "options"),
            ({"system_prompt": "word " * 64, "expected_version": 1}, {}, "system_prompt"),
            ({"system_prompt": " \n", "expected_version": 1}, {}, "system_prompt"),
            ({"prompt_template": "{{ text", "expected_version": 1}, {}, "prompt_template"),
            ({"slug": "other", "expected_version": 1}, {}, "slug"),
        ],
        ids=str,
    )
    def test_what_is_not_usable_is_named_and_nothing_changes(
        self, api: Any, agent: Any, body: Any, headers: Any, field: str
    ) -> None:
        answer = api().request("PATCH", "agents/filer", body, **headers)
        assert answer.status_code == 400, answer.content
        assert [fault["field"] for fault in answer.json()["error"]["fields"]] == [field]
        assert agent.versions.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_changes_at_once_one_is_made(agent: Any, by: Any, at_once: Any) -> None:
    def change() -> str:
        try:
            return str(revise_agent(by=by, agent=agent, expected=1, changes={"epsilon": 0.5}).version.number)
        except OutdatedVersion as error:
            return error.code

    assert sorted(at_once(4, change)) == ["2"] + ["outdated_version"] * 3
    assert setup_of(agent.versions.get(number=2)).epsilon == 0.5
