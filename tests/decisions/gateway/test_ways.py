"""Deciding where the action is no choice: rankings, and what a server writes. On servers that answer as they are told;
test_gateway.py has a real one."""

import json
import time

import pytest

from decisions.agents.services import AgentSetup, create_agent_version
from decisions.gateway.writing import _read_json
from decisions.models import Decision
from models_registry.backends.asking import UnusableAnswer
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import AliasName, Call
from models_registry.versions.services import move_alias
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
STATE = {"text": "Flights to Oslo", "notes": [{"id": "n1"}, {"id": "n2"}]}
FINDINGS = {
    "type": "object",
    "properties": {
        "related": {"type": "array", "items": {"type": "string", "x-offered": "notes[].id"}, "maxItems": 1000},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "reasoning": {"type": "string", "maxLength": 5000},
    },
    "required": ["related"],
    "additionalProperties": False,
}
TOOLS = {
    "properties": {
        "search": {
            "description": "Finds notes",
            "properties": {"words": {"type": "string"}},
            "required": ["words"],
            "additionalProperties": False,
        },
        "stop": {},
    }
}


UNFIT = [
    ('{"related": ["n3"]}', "action.related[0] 'n3' is not one of the options"),
    ('{"related": "n1"}', 'action.related "n1" is not of type "array"'),
    ("They are related.", "'They are related.' is not JSON"),
    ('{"related": [], "reasoning": "\\u0000"}', "cannot be stored"),
]


@pytest.fixture
def revise(agent, by):
    """Makes the agent's next version, with an action of this kind."""

    def make(action_space, template="{{ text }}", **fields):
        setup = AgentSetup(template, action_space=action_space, max_completion_tokens=64, **fields)
        return create_agent_version(by=by, agent=agent, setup=setup)

    return make


@pytest.fixture
def ask(api):
    client = api("route:read")
    return lambda **fields: client.post("agents/filer/decide", {"state": STATE} | fields)


def says(text=None, calls=(), logprobs=None, **choice):
    """What a server answers."""
    message = {"role": "assistant", "content": text}
    if calls:
        told = [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]
        message["tool_calls"] = told
    if logprobs:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": one} for one in logprobs]}
    return 200, {"choices": [{"message": message, **choice}], "usage": {"prompt_tokens": 20, "completion_tokens": 3}}


@pytest.mark.parametrize("space", ["choice", "ranking", "text", "tool_calls"])
def test_every_way_asks_under_the_version_s_system_prompt(space, revise, remote, ask):
    fields = {"choice": {"options": ["home", "work"]}, "tool_calls": {"action_schema": TOOLS}}.get(space, {})
    revise(space, "{{ text }} {{ options }}" if space == "ranking" else "{{ text }}", system_prompt="Sort.", **fields)
    _, server = remote("gpt", capabilities=["tools"])
    said = {"choice": "home", "ranking": "yes", "text": "Gladly.", "tool_calls": "no"}[space]
    server.answers += [says(said, [("stop", "{}")] if space == "tool_calls" else ())] * 2
    answer = ask(**({"options": ["a", "b"]} if space == "ranking" else {}))
    assert answer.status_code == 201, answer.content
    for asked in server.asked:
        system, user = asked["messages"]
        assert system == {"role": "system", "content": "Sort."} and user["content"].startswith("Flights to Oslo")
    assert Decision.objects.get().state == STATE


@pytest.mark.parametrize("space", ["choice", "ranking"])
def test_an_exploration_budget_bounds_what_acts_and_is_recorded(space, revise, remote, ask):
    """The server's pick counts as surely right, so ε 0.3 of two gives up 0.15: a budget of 20 in 1,000 leaves 2/15."""
    fields = {"options": ["home", "work"]} if space == "choice" else {}
    revise(space, "Is {{ options }} right for {{ text }}?", epsilon=0.3, exploration_budget=20, **fields)
    _, server = remote("gpt")
    server.answers += [says("home")] if space == "choice" else [says("yes"), says("no")]
    answer = ask(**({"options": ["a", "b"], "places": 1} if space == "ranking" else {})).json()
    row = Decision.objects.get()
    assert sorted(answer["probabilities"].values()) == pytest.approx([0.02, 0.98])
    assert (row.temperature, row.epsilon) == (None, pytest.approx(0.3 * 2 / 15))
    chosen = row.action if space == "choice" else row.action[0]
    assert row.propensity == answer["propensity"] == pytest.approx(answer["probabilities"][chosen])
    assert {one["action"]: one["probability"] for one in row.alternatives} == answer["probabilities"]


class TestRanking:
    def test_a_server_without_probabilities_says_yes_or_no_of_each_item(self, revise, remote, ask):
        revise("ranking", "Is {{ options }} right for {{ text }}?", epsilon=0.3)
        _, server = remote("gpt")
        server.answers += [says(word) for word in ("no", "yes", "no")]
        answer = ask(options=["rent", "ticket", "pills"], places=2).json()
        # The three are asked at the same time: which of them got the yes is the server's affair.
        assert {one["messages"][0]["content"].splitlines()[0] for one in server.asked} == {
            f"Is {item} right for Flights to Oslo?" for item in ("rent", "ticket", "pills")
        }
        shares = answer["probabilities"]
        assert sorted(shares.values()) == pytest.approx([0.1, 0.1, 0.8])
        first, second = answer["action"]
        assert answer["propensity"] == pytest.approx(shares[first] * shares[second] / (1 - shares[first]))
        row = Decision.objects.get()
        assert (row.options, row.action) == (["rent", "ticket", "pills"], [first, second])
        assert (row.propensity, row.confidence, row.tokens_in) == (answer["propensity"], None, 60)
        assert {one["action"]: one["probability"] for one in row.alternatives} == shares
        assert float(Call.objects.get().cost) == pytest.approx(3 * (20 * 1 + 3 * 10) / 1e6)

    def test_in_an_experiment_the_other_arm_s_probability_of_the_order_is_exact(self, revise, remote, ask, by):
        """The champion says yes to all, the treatment to none: to both every order is alike."""
        revise("ranking", "{{ options }}", epsilon=0.1)
        _, server = remote("gpt")
        treatment, other = remote("tuned")
        server.pick, other.pick = "yes", "no"
        start_experiment(by=by, treatment=treatment, plan=ExperimentPlan(), reason="a better one")
        told = ask(options=["a", "b", "c", "d"], places=2, unit="ann").json()
        row = Decision.objects.get()
        assert told["variant"] in {"control", "treatment"}
        assert row.propensity == pytest.approx(1 / 12) == row.other_arm_propensity
        assert len(server.asked) == len(other.asked) == 4

    def test_an_item_that_nobody_could_score_leaves_no_ranking(self, revise, remote, ask):
        revise("ranking", "{{ options }}")
        _, server = remote("gpt")
        server.answers += [says("no"), says("perhaps"), says("yes")]
        assert ask(options=["rent", "ticket", "pills"]).status_code == 503
        assert "'perhaps', which is not one of the options" in Call.objects.get().error
        assert not Decision.objects.exists()


class TestWriting:
    def test_a_structured_action_has_the_form_of_its_schema_and_is_checked(self, revise, remote, ask):
        revise("structured", action_schema=FINDINGS)
        _, server = remote("gpt", capabilities=["json_schema"])
        said = {"related": ["n2"], "confidence": 0.7, "reasoning": "Both name Oslo."}
        server.answers.append(says(f"```json\n{json.dumps(said)}\n```"))
        own = str(uuid7())
        answer = ask(id=own, unit="ann")
        assert answer.status_code == 201, answer.content
        told = answer.json()
        assert (told["action"], told["confidence"]) == (said, 0.7)
        assert (told["probabilities"], told["propensity"], told["logprob"]) == (None, None, None)
        form = server.asked[0]["response_format"]["json_schema"]["schema"]
        assert form["properties"]["related"] == {"type": "array", "items": {"type": "string", "enum": ["n1", "n2"]}}
        assert form["properties"]["reasoning"] == {"type": "string"}
        assert server.asked[0]["max_tokens"] == 64
        row = Decision.objects.get()
        assert (row.action, row.confidence, row.reasoning) == (said, 0.7, "Both name Oslo.")
        assert (row.propensity, row.alternatives, row.epsilon, row.options) == (None, None, 0.0, None)
        assert Call.objects.get().state == "answered"
        assert ask(id=own, unit="ann").json() == told
        assert len(server.asked) == 1

    def test_an_answer_that_does_not_fit_is_one_clear_error(self, revise, remote, ask):
        revise("structured", action_schema=FINDINGS)
        _, server = remote("gpt")
        for written, reason in UNFIT:
            server.answers.append(says(written))
            refused = ask()
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "backend_unavailable")
            call = Call.objects.latest("id")
            assert (call.state, call.served) == ("failed", None)
            assert call.error.startswith("The answer of gpt cannot be used") and reason in call.error
            assert call.unusable_answers == 1
        assert "fits this schema" in server.asked[0]["messages"][0]["content"]
        assert not Decision.objects.exists()

    def test_a_text_is_recorded_with_its_log_probabilities(self, revise, remote, ask):
        revise("text", temperature=0.5)
        _, server = remote("gpt", capabilities=["logprobs"])
        server.answers.append(says("On Friday.", logprobs=[-0.5, -0.25]))
        told = ask().json()
        assert (told["action"], told["logprob"], told["propensity"]) == ("On Friday.", -0.75, None)
        row = Decision.objects.get()
        assert (row.action, row.completion, row.logprobs, row.temperature) == (
            "On Friday.", "On Friday.", [-0.5, -0.25], 0.5,
        )  # fmt: skip
        assert (server.asked[0]["temperature"], server.asked[0]["logprobs"]) == (0.5, True)

    def test_tool_calls_come_as_calls_and_their_arguments_are_checked(self, revise, remote, ask):
        revise("tool_calls", action_schema=TOOLS)
        _, server = remote("gpt", capabilities=["tools"])
        server.answers.append(says(calls=[("search", '{"words": "Oslo"}'), ("stop", "{}")]))
        told = ask().json()
        calls = [{"name": "search", "arguments": {"words": "Oslo"}}, {"name": "stop", "arguments": {}}]
        assert told["action"] == Decision.objects.get().action == calls
        assert Decision.objects.get().options == ["search", "stop"]
        offered = [one["function"] for one in server.asked[0]["tools"]]
        assert (offered[0]["name"], offered[0]["description"]) == ("search", "Finds notes")
        assert offered[0]["parameters"]["required"] == ["words"]
        server.answers.append(says(calls=[("search", '{"word": "Oslo"}')]))
        assert ask().status_code == 503
        assert "action[0].arguments.words is missing" in Call.objects.get(state="failed").error
        assert Decision.objects.count() == 1

    @pytest.mark.parametrize("space", ["text", "tool_calls"])
    def test_an_agent_with_tools_may_answer_in_words(self, revise, remote, ask, space):
        revise(space, action_schema=TOOLS)
        _, server = remote("gpt", capabilities=["tools"])
        server.answers += [says("Gladly."), says("Let me look.", calls=[("stop", "{}")]), says(" ")]
        said = [ask().json()["action"] for _ in range(2)]
        assert said == ["Gladly.", [{"name": "stop", "arguments": {}}]]
        rows = list(Decision.objects.order_by("id"))
        assert [row.action for row in rows] == said
        assert [row.completion for row in rows] == ["Gladly.", "Let me look."]
        assert [row.options for row in rows] == [["search", "stop"]] * 2
        empty = ask()
        assert (empty.status_code, empty.json().get("action")) == ((503, None) if space == "text" else (201, []))

    @pytest.mark.parametrize("capabilities", [["tools"], ["grammar", "json_schema", "tools"]], ids=["theirs", "ours"])
    def test_a_chat_is_asked_as_it_is_with_the_tools_that_came_with_it(self, revise, remote, ask, capabilities):
        revise("tool_calls", template="{{ input }}", system_prompt="You book.")
        _, server = remote("gpt", capabilities=capabilities)
        server.answers.append(says(calls=[("look", '{"at": "Oslo"}')]))
        called = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "Bergen"}'}}
        said = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Rain in Bergen?"}]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "user", "content": "And Oslo?"},
        ]
        tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
        answer = ask(state={"input": "And Oslo?", "messages": said, "tools": [tool]})
        assert answer.json()["action"] == [{"name": "look", "arguments": {"at": "Oslo"}}], answer.content
        [asked] = server.asked
        system, first, calls, result, last = asked["messages"]
        assert system == {"role": "system", "content": "You book.\n\nBe brief."}
        assert (first["content"], calls["tool_calls"], calls["content"]) == ("Rain in Bergen?", [called], "")
        assert (result, last) == (said[3], said[4])
        assert asked["tools"] == [tool] and "response_format" not in asked
        assert Decision.objects.get().options == ["look"]

    @pytest.mark.parametrize("space", ["text", "tool_calls"])
    def test_an_agent_without_limits_sends_none(self, agent, by, remote, ask, space):
        version = create_agent_version(
            by=by, agent=agent, setup=AgentSetup("{{ text }}", action_space=space, action_schema=TOOLS)
        )
        assert (version.max_prompt_tokens, version.max_completion_tokens) == (None, None)
        _, server = remote("gpt", capabilities=["tools"])
        _, ours = remote("ours", kind="vllm", capabilities=["grammar", "json_schema", "tools"])
        for one in (server, ours):
            one.answers.append(says("Gladly."))
        assert ask().json()["action"] == "Gladly."
        [asked] = server.asked + ours.asked
        assert not {"max_tokens", "max_completion_tokens", "max_prompt_tokens"} & set(asked)

    @pytest.mark.parametrize("kind", ["openai", "vllm"])
    def test_a_model_of_ours_elsewhere_is_asked_as_in_training(self, revise, remote, ask, kind):
        _, server = remote("ours", kind=kind, capabilities=["grammar", "json_schema", "tools"])
        revise("structured", action_schema=FINDINGS)
        server.answers.append(says('{"related": ["n2"]}'))
        assert ask().json()["action"] == {"related": ["n2"]}
        revise("tool_calls", action_schema=TOOLS)
        server.answers.append(says('[{"arguments":{"words":"Oslo"},"name":"search"}]'))
        assert ask().json()["action"] == [{"name": "search", "arguments": {"words": "Oslo"}}]
        findings, calls = server.asked
        for asked in server.asked:
            assert asked["messages"] == [{"role": "user", "content": STATE["text"]}] and "tools" not in asked
        assert findings["response_format"]["json_schema"]["schema"]["required"] == ["related"]
        form = calls["response_format"]["json_schema"]["schema"]
        assert [one["properties"]["name"]["const"] for one in form["items"]["anyOf"]] == ["search", "stop"]
        server.answers += [says("[]"), says("Which of them?")]
        assert [ask().json()["action"] for _ in range(2)] == [[], "Which of them?"]
        server.answers.append(says('{"name": "stop"}'))
        assert ask().status_code == 503
        assert "is not a list of calls" in Call.objects.get(state="failed").error
        assert Decision.objects.count() == 4

    def test_who_stands_in_writes_where_the_champion_cannot(self, revise, remote, ask, by):
        revise("text")
        _, first = remote("gpt")
        spare, second = remote("llama")
        move_alias(by=by, version=spare, name=AliasName.FALLBACK)
        first.stop()
        second.answers.append(says("On Friday."))
        told = ask().json()
        assert (told["action"], told["fallback"], told["model_version"]) == ("On Friday.", True, str(spare))
        call = Call.objects.get()
        assert (call.served, call.state) == (spare, "answered")
        assert "gpt does not answer" in call.fallback


IMPOSSIBLE = [
    ("text", {}, {"options": ["a", "b"]}, "options"),
    ("text", {}, {"places": 2}, "places"),
    ("text", {"temperature": 3.0}, {}, "agent"),
    ("choice", {}, {"options": ["a", "b"], "places": 1}, "places"),
    ("choice", {}, {"options": ["a"]}, "options"),
    ("ranking", {"template": "{{ options }}"}, {"options": ["a", "b"], "places": 3}, "places"),
    ("ranking", {}, {"options": ["a", "b"]}, "options"),
    ("ranking", {}, {}, "options"),
    ("tool_calls", {}, {}, "options"),
    ("structured", {"action_schema": {"type": "object", "properties": {
        "note": {"type": "string", "x-offered": "gone[].id"}, "why": {"type": "string"}}, "required": ["note"]}},
        {}, "state"),
]  # fmt: skip


def test_what_an_agent_cannot_do_is_refused_before_anything_is_asked(revise, remote, ask):
    _, server = remote("gpt")
    for space, fields, sent, place in IMPOSSIBLE:
        revise(space, **fields)
        refused = ask(**sent)
        assert refused.status_code == 400, refused.content
        [fault] = refused.json()["error"]["fields"]
        assert fault["field"] == place and fault["reason"]
    assert not server.asked
    assert not Call.objects.exists()


SEVERAL_FAULTS = [
    ("choice", {}, [{"state": {}, "options": ["a", "a"], "places": 1}, {"options": ["a"], "places": 1}],
     ["items[0].options", "items[0].state.text", "items[1].options", "items[1].places"]),
    ("ranking", {}, [{"options": ["a", "a"], "places": 3}, {"state": {}, "options": ["a"], "places": 3}],
     ["items[0].options", "items[0].places", "items[1].options", "items[1].places", "items[1].state.text"]),
    ("text", {"temperature": 3.0}, [{"places": 1}, {"state": {}, "options": ["a"]}],
     ["agent", "items[0].places", "agent", "items[1].options", "items[1].state.text"]),
]  # fmt: skip


@pytest.mark.parametrize(("space", "fields", "items", "places"), SEVERAL_FAULTS, ids=[row[0] for row in SEVERAL_FAULTS])
def test_every_fault_of_every_item_is_said_at_its_place(revise, remote, api, space, fields, items, places):
    """What is wrong with the agent stands at no item."""
    remote("gpt")
    revise(space, **fields)
    refused = api("route:read").post("agents/filer/decide", [{"state": STATE} | item for item in items])
    assert refused.status_code == 400, refused.content
    assert [fault["field"] for fault in refused.json()["error"]["fields"]] == places


def test_a_fence_is_looked_for_once_however_many_lines_a_model_writes():
    """In its worst hour a model writes line breaks up to its limit of tokens."""
    blanks = "\n" * 20_000
    began = time.process_time()
    for text in (f"```json\n{blanks}", f"{blanks}```json{blanks}x", "```json\n" + " \r\n" * 20_000 + "```x"):
        with pytest.raises(UnusableAnswer):
            _read_json(text, "")
    assert time.process_time() - began < 2
    for text in ('```json\r\n{"a": 1}\r\n```', f'{blanks}``` \n{blanks}{{"a": 1}}{blanks}  ```{blanks}'):
        assert _read_json(text, "") == {"a": 1}
