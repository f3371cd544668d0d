"""Agents in a real browser: a new version by the keyboard, its comparison, the widths and the dark."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from decisions.agents.revising import revise_agent
from decisions.api.judge_examples import A_CALIBRATION
from decisions.models import Agent, AgentVersion, Label
from tests.browser.accessibility import look_at
from tools.factories import (
    OPTIONS,
    AutoLabelerFactory,
    DecisionFactory,
    JudgeCalibrationFactory,
    LabelSuggestionFactory,
)


def test_an_agent_is_created_from_a_kind(tab: Any, admin: Any, workspace: Any, log_in: Any) -> None:
    log_in(tab, admin).goto(reverse("pages:agents", args=[workspace.slug]))
    tab.get_by_role("link", name="New agent").first.click()
    tab.get_by_role("link", name="Guardrail").click()
    expect(tab.get_by_label("Name", exact=True)).to_have_value("Guardrail")
    assert look_at(tab, "agent-new") == []
    tab.get_by_text("Action space, lengths and schemas").click()
    for space, explores in (("text", False), ("choice", True)):
        tab.get_by_label("Action space", exact=True).select_option(space)
        expect(tab.get_by_label("Epsilon")).to_be_visible(visible=explores)
        expect(tab.get_by_role("heading", name="Exploration")).to_be_visible(visible=explores)
    tab.get_by_label("Name", exact=True).fill("Mail guard")
    tab.get_by_role("button", name="Create agent").click()
    expect(tab.get_by_role("heading", name="Mail guard", level=1)).to_be_visible()
    assert Agent.objects.get(slug="mail-guard").kind == "GUARDRAIL"


def test_a_version_is_compared_and_made_and_every_page_fits(
    tab: Any, admin: Any, agent: Any, workspace: Any, log_in: Any, by: Any
) -> None:
    DecisionFactory(agent=agent)
    options = [*OPTIONS, *(f"folder {number}" for number in range(100))]
    revise_agent(by=by, agent=agent, expected=1, changes={"options": options})
    log_in(tab, admin).goto(reverse("pages:runs", args=[workspace.slug]))
    tab.keyboard.press("g")
    tab.keyboard.press("a")
    expect(tab.get_by_role("heading", name="Agents", level=1)).to_be_visible()
    found = look_at(tab, "agents")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Filer", level=1)).to_be_visible()
    tab.keyboard.press("n")
    tab.get_by_label("Prompt", exact=True).fill("File this note into a folder.\n\n{{ text }}")
    tab.get_by_label("System prompt").fill("You file the notes of a small team.\nBe quick.")
    tab.get_by_label("Epsilon").fill("0.1")
    tab.get_by_role("button", name="Show the changes").click()
    expect(tab.get_by_role("heading", name="Changes from version 2")).to_be_focused()
    expect(tab.locator("ins").first).to_have_text("File this note into a folder.")
    found += look_at(tab, "agent-edit")
    tab.get_by_role("button", name="Create version 3").click()
    expect(tab.get_by_text("Filer has version 3 now.")).to_be_visible()
    assert AgentVersion.objects.get(agent=agent, number=3).epsilon == 0.1
    tab.goto(reverse("pages:agent", args=[workspace.slug, agent.slug]))
    found += look_at(tab, "agent")
    tab.get_by_role("link", name="Version 3").click()
    expect(tab.get_by_role("heading", name="Changes from version 2")).to_be_visible()
    found += look_at(tab, "agent-version")
    measured = {name: A_CALIBRATION[name] for name in ("verdict", "scores", "labels", "warnings", "assessment")}
    JudgeCalibrationFactory(agent=agent, reasons=[], **measured)
    JudgeCalibrationFactory(agent=agent, metric="polite")
    tab.goto(reverse("pages:agent-judges", args=[workspace.slug, agent.slug]))
    expect(tab.get_by_text("1 of 2 judges can be relied on alone.")).to_be_visible()
    found += look_at(tab, "agent-judges")
    decision = DecisionFactory(agent=agent, options=list(OPTIONS), action=OPTIONS[0])
    LabelSuggestionFactory(decision=decision, verdict="corrected")
    AutoLabelerFactory(agent=agent, labels=640, accuracy=0.894, baseline=0.31, suggested=1, looked_at=1)
    tab.goto(reverse("pages:agent-suggestions", args=[workspace.slug, agent.slug]))
    expect(tab.get_by_text("its likeliest answer is right in 89.4%")).to_be_visible()
    found += look_at(tab, "agent-suggestions")
    tab.goto(reverse("pages:agent-traces", args=[workspace.slug, agent.slug]))
    found += look_at(tab, "agent-traces")
    tab.goto(f"{reverse('pages:label', args=[workspace.slug])}?agent={agent.slug}")
    expect(tab.get_by_role("button", name="Accept")).to_be_visible()
    found += look_at(tab, "label-suggested")
    tab.keyboard.press("a")
    expect(tab.get_by_text("1 labelled by you today")).to_be_visible()
    assert Label.objects.get(decision=decision).corrected_action == OPTIONS[1]
    tab.goto(reverse("pages:agent-cache", args=[workspace.slug, agent.slug]))
    found += look_at(tab, "agent-cache")
    assert found == []
