"""Episodes in a real browser: the keys, what is folded, the links, the widths, the dark."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from decisions.models import Episode
from decisions.traces.recording import record_spans
from tests.browser.accessibility import look_at
from tests.decisions.traces.spans_made import make_span
from tools.factories import DecisionFactory, EpisodeFactory, StepFactory


def page(name: str, workspace: Any, *args: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug, *args])


def chat(question: str, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "gpt-x-1",
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": question}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer}]),
        "gen_ai.usage.input_tokens": 412,
        "gen_ai.usage.output_tokens": 58,
        "reckoner.cost": 0.00231,
        **more,
    }


@pytest.fixture
def told(by: Any) -> Episode:
    """As traces tell it: an agent with a search, a note that cannot be opened, and two calls of a model."""
    question = "File what came in over the weekend, and tell me what needs me."
    answer = "Three notes are filed under travel. The invoice of 14 March needs you: it is locked."
    root = {
        "openinference.span.kind": "AGENT",
        "input.value": question,
        "output.value": answer,
        "session.id": "ann-monday",
        "user.id": "ann",
        "reckoner.tasks.created": 4,
        "reckoner.tasks.completed": 3,
        "reckoner.tasks.failed": 1,
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "call_1"}
    inside = {"openinference.span.kind": "EMBEDDING"}
    found = {"gen_ai.tool.name": "search_notes", "gen_ai.tool.call.arguments": '{"query": "weekend", "limit": 20}'}
    thought = {
        "reckoner.step.kind": "reasoning",
        "reckoner.reasoning.type": "analysis",
        "reckoner.reasoning.content": "Two of the four are invoices; one of them is locked, so a person has to look.",
        "reckoner.confidence": 0.8,
        "reckoner.reasoning.insights": ["Both invoices are from March."],
    }
    result = json.dumps([{"note": 17, "title": "Flight to Lisbon"}, {"note": 31, "title": "Invoice 14 March"}])
    evaluation = (
        "gen_ai.evaluation.result",
        {"gen_ai.evaluation.name": "solved", "gen_ai.evaluation.score.value": 0.75},
    )
    spans = [
        make_span(1, seconds=6.2, name="concierge", attributes=root, events=(evaluation,)),
        make_span(2, start=0.05, seconds=1.4, parent=1, name="chat gpt-x", attributes=chat(question, "Search first.")),
        make_span(3, start=1.5, seconds=0.4, parent=1, name="search",
                  attributes={**tool, **found, "gen_ai.tool.call.result": result}),
        make_span(4, start=1.6, seconds=0.2, parent=3, name="embed", attributes=inside),
        make_span(5, start=2.0, seconds=0.9, parent=1, name="thought", attributes=thought),
        make_span(6, start=3.0, seconds=0.6, parent=1, name="open", failed=True, message="The note is locked.",
                  attributes={**tool, "gen_ai.tool.name": "open_note", "gen_ai.tool.call.arguments": '{"note": 31}'}),
        make_span(7, start=3.7, seconds=2.4, parent=1, name="chat gpt-x", attributes=chat(question, answer)),
    ]  # fmt: skip
    recorded = record_spans(by=by, spans=spans)
    assert (recorded.refused, recorded.warnings) == ((), ())
    return Episode.objects.get()


@pytest.fixture
def others(scene: Any) -> list[Any]:
    """A few more for the list: with and without a session, failures, a question too long for its line."""
    made = []
    for number in range(8):
        started = timezone.now() - dt.timedelta(minutes=7 * number + 3)
        row = EpisodeFactory(
            agent=scene.agent,
            query="Which of these is about graphs? " * (1 + number % 3),
            session=f"session {number % 2}" if number % 3 else "",
            started_at=started,
        )
        for place in range(number % 4 + 1):
            StepFactory(episode=row, success=place != 2, started_at=started, duration_ms=210.0 * (place + 1))
        DecisionFactory(agent=scene.agent, episode=row, tokens_in=310, tokens_out=12)
        made.append(row)
    return made


def test_keys_walk_through_the_list_and_the_story_and_filters_narrow_it(
    tab: Any, viewer: Any, told: Any, others: Any, workspace: Any, log_in: Any
) -> None:
    log_in(tab, viewer).goto(page("overview", workspace))
    tab.keyboard.press("g")
    tab.keyboard.press("p")
    expect(tab.get_by_role("heading", name="Episodes")).to_be_visible()
    expect(tab.locator("[data-row]")).to_have_count(9)
    tab.get_by_label("State").select_option("failed")
    expect(tab.locator("[data-row]")).to_have_count(5)
    tab.get_by_label("ID, name, trace or unit").fill("ann")
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab.go_back()  # the filters act in place, and history brings them back
    expect(tab.locator("[data-row]")).to_have_count(5)
    tab.goto(page("episodes", workspace) + "?session=ann-monday")
    tab.keyboard.press("j")
    expect(tab.locator(f"#e-{told.id}")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Steps and decisions")).to_be_visible()
    tool = tab.locator(".line", has_text="search_notes")
    for _ in range(3):
        tab.keyboard.press("j")
    expect(tool).to_be_focused()
    expect(tool.locator("details").first).not_to_have_attribute("open", "")
    tab.keyboard.press("Enter")
    expect(tool.locator("details").first).to_have_attribute("open", "")
    tab.get_by_role("link", name="open_note").click()
    expect(tab.locator(".line:target .line-error")).to_have_text("The note is locked.")
    tab.get_by_role("link", name="chat gpt-x").first.click()
    expect(tab.locator("#decision-id")).to_have_text(str(told.decisions.earliest("observed_at").id))
    expect(tab.get_by_role("heading", name="State")).to_be_visible()


def test_every_page_of_episodes_fits_and_is_accessible(
    tab: Any, viewer: Any, told: Any, others: Any, workspace: Any, log_in: Any
) -> None:
    empty = EpisodeFactory(agent=others[0].agent, query="")
    log_in(tab, viewer)
    pages = {
        "list": page("episodes", workspace),
        "told": page("episode", workspace, told.pk),
        "empty": page("episode", workspace, empty.pk),
    }
    found: list[str] = []
    for name, path in pages.items():
        tab.goto(path)
        if name == "told":
            tab.locator(".line", has_text="search_notes").locator("summary").first.click()
        found += look_at(tab, f"episode-{name}")
    assert found == []
