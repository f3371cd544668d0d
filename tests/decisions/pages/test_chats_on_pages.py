"""Chats on the ledger's pages: turns, calls with their results, media, tools, and the answer's own calls."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from django.urls import reverse

from decisions.models import Decision
from decisions.queries.chat_shown import show_calls, show_chat
from decisions.queries.decision_shown import show_decision
from tests.decisions.pages.decision_pages import at
from tools.chats import CHAT_STATE, make_chat_decision
from tools.factories import AgentVersionFactory, DecisionFactory, EpisodeFactory


def chat(**more: Any) -> dict[str, Any]:
    return copy.deepcopy(CHAT_STATE) | more


@pytest.fixture
def chatted(workspace: Any) -> Decision:
    return make_chat_decision(workspace)


def seen(page: str) -> str:
    """The page's text, each run of space as one."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.mark.parametrize("name", ["decision", "label"])
def test_a_chat_is_shown_as_turns(name: str, chatted: Decision, labeller: Any, page_client: Any) -> None:
    address = at(name, chatted) if name == "decision" else reverse("pages:label", args=[chatted.workspace.slug])
    page = page_client(labeller).get(address).content.decode()
    state = page[page.index('<ol class="chat"') :]
    roles = re.findall(r'<li class="turn (\w+)">', state)
    assert roles == ["system", "user", "assistant", "user"]  # what the tool answered stands under its call
    text = seen(state)
    assert "Which trains go there?\nToday, please." in state  # line breaks stay
    assert "find_trains call_7f3a { &quot;to&quot;: &quot;Oslo&quot;" in text
    assert "[picture, image/png, 69 bytes]" in text
    assert re.search(r'class="call-result".*09:14', state, re.DOTALL)
    assert "2 tools on offer" in text and text.index("2 tools on offer") > text.index("Book the first")
    assert "I book it." in text and "book call_9c1d { &quot;train&quot;: 14" in text  # the answer
    assert "{&quot;role&quot;" not in page


def test_lists_show_the_question(chatted: Decision, viewer: Any, page_client: Any) -> None:
    page = page_client(viewer).get(at("decisions-list", chatted)).content.decode()
    assert re.search(r'class="row-title"[^>]*>Book the first, as in the picture\.</a>', page)


def test_what_is_beyond_the_chat_stays_in_sight(chatted: Decision) -> None:
    chatted.state = chat(customer={"since": 2019}, tool_choice="auto")
    shown = show_decision(chatted)
    assert {node.name for node in shown.fields} == {"customer", "tool_choice"}
    assert shown.summary == 'Book the first, as in the picture. · {"since": 2019}'


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": [1, 2]}'}},
        {"id": "c1", "name": "look", "arguments": {"at": [1, 2]}},
    ],
)
def test_calls_are_read_as_clients_and_traces_write_them(call: dict[str, Any]) -> None:
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "I look."},
        {"role": "tool", "tool_call_id": "c1", "content": '{"seen": "a cat"}'},
        {"role": "tool", "tool_call_id": "c9", "content": "of no call"},
    ]
    shown = show_chat({"messages": messages})
    assert shown is not None
    _, asked, stray = shown.turns
    assert (asked.reasoning, asked.speech) == ("I look.", ())
    [made] = asked.calls
    assert (made.name, made.id, made.arguments) == ("look", "c1", '{\n  "at": [\n    1,\n    2\n  ]\n}')
    assert [piece.text for result in made.results for piece in result] == ['{\n  "seen": "a cat"\n}']
    assert (stray.role, stray.answers, stray.speech[0].text) == ("tool", "c9", "of no call")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "picture, https://example.org/a.png"),
        ({"type": "input_audio", "input_audio": {"format": "wav", "bytes": 2048, "sha256": "0"}}, "sound, wav, 2.0 KB"),
        ({"type": "file", "file": {"filename": "a.pdf", "media_type": "application/pdf", "bytes": 10}},
         "file, application/pdf, a.pdf, 10 bytes"),
        ({"type": "image"}, "picture"),
        ({"type": "video"}, "video"),
    ],
)  # fmt: skip
def test_media_are_notes(part: dict[str, Any], text: str) -> None:
    shown = show_chat({"messages": [{"role": "user", "content": [part]}]})
    assert shown is not None
    [piece] = shown.turns[0].speech
    assert piece.medium and piece.text.replace("\xa0", " ") == text


def test_a_long_chat_folds_its_earlier_turns() -> None:
    messages = [{"role": "user", "content": f"line {number}"} for number in range(60)]
    shown = show_chat({"messages": messages})
    assert shown is not None
    assert (len(shown.earlier), len(shown.latest), shown.latest[0].number) == (40, 20, 41)


@pytest.mark.parametrize(
    "state",
    [None, "text", {"text": "a"}, {"messages": []}, {"messages": [{"role": "narrator", "content": "Once"}]},
     {"messages": [{"role": "user", "content": 7}]}],
)  # fmt: skip
def test_what_is_no_chat_is_shown_as_any_state(state: Any) -> None:
    assert show_chat(state) is None


def test_arguments_that_are_no_object_are_shown_as_written() -> None:
    [call] = show_calls([{"name": "look", "arguments": {}, "unread": '{"at": '}])
    assert (call.arguments, call.id) == ('{"at": ', "")
    assert show_calls("words") == show_calls([]) == show_calls([{"arguments": {}}]) == ()


def test_a_decision_names_its_episode_and_cost(agent: Any, viewer: Any, page_client: Any) -> None:
    episode = EpisodeFactory(agent=agent, external_id="trip-7")
    decision = DecisionFactory(agent=agent, episode=episode, cost="0.00125")
    page = page_client(viewer).get(at("decision", decision)).content.decode()
    address = reverse("pages:episode", args=[decision.workspace.slug, episode.pk])
    assert f'<dt>Episode</dt><dd><a href="{address}"' in page and "trip-7" in page
    assert re.search(r"<dt>Cost</dt><dd[^>]*>[^<]*0\.00125", page)


@pytest.mark.parametrize(
    ("temperature", "epsilon", "says"),
    [
        (0.7, 0.0, "Sampling temperature 0.7"),
        (None, 0.0, "Sampling greedy, or at the model’s own temperature"),
        (None, None, ""),
    ],
)
def test_a_chat_says_how_it_was_sampled_and_of_exploration_nothing(
    temperature: float | None, epsilon: float | None, says: str, chatted: Decision, viewer: Any, page_client: Any
) -> None:
    fields: dict[str, Any] = {"temperature": temperature, "epsilon": epsilon, "propensity": None}
    of = {"agent": chatted.agent, "agent_version": chatted.agent_version, "options": None}
    text = seen(page_client(viewer).get(at("decision", DecisionFactory(**of, **fields))).content.decode())
    assert "xploration" not in text and ("Sampling" in text) == bool(says) and says in text


@pytest.mark.parametrize(
    ("temperature", "epsilon", "says"),
    [
        (0.5, 0.1, "temperature 0.5, ε 10.0%"),
        (0.5, None, "temperature 0.5"),
        (None, 0.0, "ε 0.0%"),
        (None, None, "unknown"),
    ],
)
def test_a_choice_says_as_much_of_its_exploration_as_is_known(
    temperature: float | None, epsilon: float | None, says: str, agent: Any, viewer: Any, page_client: Any
) -> None:
    decision = DecisionFactory(agent=agent, temperature=temperature, epsilon=epsilon)
    text = seen(page_client(viewer).get(at("decision", decision)).content.decode())
    assert f"{says} Model" in text[text.index("xploration") :]


def test_a_choice_names_the_budget_that_bound_its_exploration(agent: Any, viewer: Any, page_client: Any) -> None:
    version = AgentVersionFactory(agent=agent, exploration_budget=20)
    decision = DecisionFactory(agent=agent, agent_version=version, temperature=None, epsilon=0.013)
    text = seen(page_client(viewer).get(at("decision", decision)).content.decode())
    assert "ε 1.3%, budget 20 Model" in text[text.index("xploration") :]
