"""The office's tools: in process and over HTTP they are the same, and free calls solve what letters solve."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

import jsonschema
import pytest

from training.engine.environments.office import database, spreadsheets
from training.engine.environments.office.calls import as_tool_call
from training.engine.environments.office.environment import Office
from training.engine.environments.office.server import serve_office
from training.engine.environments.office.tables import ToolError, table
from training.engine.environments.office.templates.catalogue import TRAINED
from training.engine.environments.office.tools import TOOLS, Answer, call
from training.engine.environments.office.world import set_up_world
from training.engine.environments.protocol import draw_tasks

TASKS = {task.template: task for task in draw_tasks(Office, len(TRAINED), "train")}
BAD_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("open_sheet", {"file": "../etc/passwd"}),
    ("open_sheet", {}),
    ("open_sheet", {"file": 3}),
    ("write_file", {"file": "../x.txt", "text": "a"}),
    ("first_rows", {"count": 0}),
    ("set_issue_state", {"issue": "nothing", "state": "gone"}),
    ("post_message", {"to": "nobody", "text": "hello"}),
    ("query_db", {"sql": "ATTACH DATABASE '/tmp/reckoner-office.db' AS other"}),
    ("query_db", {"sql": "DROP TABLE x"}),
]


def over_http(address: str, name: str, arguments: Any, app: str | None = None, **headers: str) -> Any:
    body = json.dumps(arguments).encode()
    told = {"Content-Type": "application/json", **headers}
    path = f"{address}/{app or TOOLS[name].app}/{name}"
    with urllib.request.urlopen(urllib.request.Request(path, body, told), timeout=10) as answer:
        return json.load(answer)


def test_the_same_calls_in_process_and_over_http_give_the_same_answers_and_the_same_state() -> None:
    for template in ("room", "failures", "handover", "release"):
        facts = TASKS[template].facts
        inside, outside = set_up_world(facts), set_up_world(facts)
        with serve_office(lambda name, arguments, world=outside: call(world, name, arguments)) as address:
            for step in facts["plan"]:
                name, arguments = as_tool_call(inside, step)
                told = over_http(address, name, arguments)
                assert Answer(**told) == call(inside, name, arguments) != Answer(False, told["text"])
                assert inside == outside
            for name, arguments in [*BAD_CALLS, ("query_db", {"sql": "SELECT 6 * 7 AS answer"}), ("show_desk", {})]:
                told = over_http(address, name, arguments)
                assert Answer(**told) == call(inside, name, arguments)
                assert told["ok"] is ((name, arguments) not in BAD_CALLS)
        assert inside == outside
        assert inside.as_json() == outside.as_json()


def test_an_episode_can_be_acted_in_over_http() -> None:
    office = Office()
    office.reset(TASKS["spending"])
    with serve_office(office.take_call) as address:
        listed = json.load(urllib.request.urlopen(f"{address}/tools", timeout=10))["tools"]
        assert {(one["app"], one["name"]) for one in listed} == {(one.app, name) for name, one in TOOLS.items()}
        assert over_http(address, "open_sheet", {"file": "nothing"}) == {"ok": False, "text": "no file nothing"}
        for step in office.plan:
            assert over_http(address, *as_tool_call(office.world, step))["ok"]
        assert over_http(address, "done", {}, app="episode")["ok"]
        assert over_http(address, "list_files", {}) == {"ok": False, "text": "the work has ended"}
    assert (office.solved, office.done, office.steps) == (True, True, len(office.plan) + 2)


def test_strangers_from_elsewhere_and_what_is_no_call_are_refused() -> None:
    office = Office()
    office.reset(TASKS["spending"])
    with serve_office(office.take_call) as address:
        for status, arguments, more in [
            (403, {}, {"Host": "evil.example"}),
            (415, {}, {"Content-Type": "text/plain"}),
            (404, {}, {"app": "drive"}),
            (400, [1], {}),
            (413, {"x": "y" * 200_000}, {}),
        ]:
            with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)) as refused:
                over_http(address, "list_files", arguments, **more)
            if isinstance(refused.value, urllib.error.HTTPError):
                assert refused.value.code == status
                refused.value.close()
    assert office.steps == 0


def test_free_calls_solve_a_task_by_real_names_without_the_desk() -> None:
    office = Office()
    office.reset(TASKS["spending"])
    found = re.fullmatch(r"query \{(\w+)\} keep (\w+) sum .*", " ".join(office.plan))
    assert found is not None
    name, team = found.groups()
    boss = office.task.facts["goals"][-1]["to"]
    sql = f"SELECT sum(amount) AS total FROM {name} WHERE team = '{team}'"
    result = office.step(office.read_call("query_db", {"sql": sql}))
    total = office.world.desk[-1].rows[0][0]
    assert str(total) in result.observation
    assert office.step(office.read_call("post_message", {"to": boss, "text": f"They spent {total}."})).reward > 0
    assert office.solved
    assert office.step(office.read_call("done", {})).reward == pytest.approx(0.5)


def test_tools_have_schemas_and_bad_calls_are_told_what_is_wrong() -> None:
    office = Office()
    office.reset(TASKS["spending"])
    tools = office.tools()
    assert {"read_file", "query_db", "sheet_sum", "post_message", "create_issue", "share_file", "done"} <= {
        tool.name for tool in tools
    }
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(dict(tool.parameters))
        assert tool.as_openai()["function"]["name"] == tool.name
    with pytest.raises(ValueError, match="there is no tool 'fly'"):
        office.read_call("fly", {})
    with pytest.raises(ValueError, match='"file" is a required property'):
        office.read_call("open_sheet", {})
    assert office.step('open_sheet {"file": 3}').info["error"]
    assert office.step("open_sheet").info["error"]
    assert office.world == set_up_world(office.task.facts)


def test_a_workbook_comes_back_as_it_was_written_and_equal_ones_have_equal_bytes() -> None:
    one = table(("name", "count"), [("Ann Alder", 3), ("Bob", 2.5), ("empty", None)])
    content = spreadsheets.write_workbook(one)
    assert content[:2] == b"PK"
    assert spreadsheets.read_workbook(content) == one
    assert spreadsheets.write_workbook.__wrapped__(one) == content
    with pytest.raises(ToolError, match="no workbook"):
        spreadsheets.read_workbook(b"a,b")


def test_statements_change_rows_and_reach_nothing_else() -> None:
    data = database.make_database({"t": table(("a", "b"), [(1, "x"), (2, "y")])})
    found, same = database.query(data, "SELECT sum(a) AS s FROM t")
    assert (found.columns, found.rows, same) == (("s",), ((3,),), data)
    _, changed = database.query(data, "UPDATE t SET b = 'z' WHERE a = 2")
    assert database.read_table(changed, "t").rows == ((1, "x"), (2, "z"))
    assert database.read_table(data, "t").rows == ((1, "x"), (2, "y"))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    for bad in (endless, "PRAGMA writable_schema = 1", "VACUUM INTO '/tmp/reckoner-office.db'", "SELECT 1; SELECT 2"):
        with pytest.raises(ToolError, match="SQL"):
            database.query(data, bad)
