"""Pages of an agent's rewards: read by everyone of the workspace, changed by admins as versions looked at first."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from decisions.models import RewardDraft, RewardSpec
from decisions.pages.reward_form import write_content
from decisions.queries.reward_specs import SPECS
from decisions.rewards.queueing import CALCULATE_REWARDS
from decisions.rewards.revising import revise_reward_spec
from decisions.rewards.specs import ComponentSetup, SpecContent, content_of, current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import AgentVersionFactory, DecisionFactory, FeedbackFactory

pytestmark = pytest.mark.django_db


def at(name: str, agent: Any, *more: Any) -> str:
    return reverse(f"pages:{name}", args=[agent.workspace.slug, agent.slug, *more])


def filled(agent: Any, **changes: Any) -> dict[str, Any]:
    """What a browser posts of the form as it is shown, with changes; a box that is not ticked is not sent."""
    newest = current_reward_spec(agent)
    values = {"base": newest.number, "seen": "", **write_content(content_of(newest)), **changes}
    return {name: "" if value is None else value for name, value in values.items() if value is not False}


def hidden(page: str) -> dict[str, str]:
    """The form's hidden fields."""
    return dict(re.findall(r'<input type="hidden" name="(base|seen)" value="([^"]*)"', page))


def revise(by: Any, agent: Any, weight: float) -> RewardSpec:
    newest = current_reward_spec(agent)
    content = SpecContent((ComponentSetup("verdict", weight),))
    return revise_reward_spec(by=by, agent=agent, expected=newest.number, content=content).spec


class TestReading:
    def test_the_agent_s_page_shows_what_counts(self, agent: Any, by: Any, viewer: Any, page_client: Any) -> None:
        components = (ComponentSetup("verdict", 2.0), ComponentSetup("filer.time", 0.3, {"quick": 0.4}, 14, 0.0))
        revise_reward_spec(by=by, agent=agent, expected=1, content=SpecContent(components))
        client = page_client(viewer)
        text = client.get(at("agent", agent)).content.decode()
        assert "filer.time" in text and "Time spent, against what was expected" in text and "quick 0.4" in text
        assert "14 days, then 0" in text and at("agent-rewards", agent) in text
        assert at("agent-rewards-edit", agent) not in text  # a viewer's
        listed = client.get(at("agent-rewards", agent)).content.decode()
        assert "Version 2" in listed and "filer.time, verdict" in listed.replace(
            "verdict, filer.time", "filer.time, verdict"
        )

    def test_a_version_shows_what_it_changed_and_its_yaml(
        self, agent: Any, by: Any, viewer: Any, page_client: Any
    ) -> None:
        revise(by, agent, 2.0)
        client = page_client(viewer)
        text = client.get(at("agent-reward-spec", agent, 2)).content.decode()
        assert "<ins>weight: 2.0</ins>" in text and "<del>weight: 1.0</del>" in text
        assert "The first version" in client.get(at("agent-reward-spec", agent, 1)).content.decode()
        file = client.get(at("agent-reward-yaml", agent, 2))
        assert file.headers["Content-Disposition"] == 'attachment; filename="filer-rewards-2.yaml"'
        assert yaml.safe_load(file.content)["components"][0]["weight"] == 2.0
        assert "training_low" not in file.content.decode()  # it follows from the weights that are edited
        for number in (9, 10**12):
            assert client.get(at("agent-reward-spec", agent, number)).status_code == 404

    def test_the_statements_do_not_grow_with_versions(self, agent: Any, by: Any, viewer: Any, page_client: Any) -> None:
        client, path = page_client(viewer), at("agent-rewards", agent)

        def count() -> int:
            with CaptureQueriesContext(connection) as found:
                assert client.get(path).status_code == 200
            return len(found)

        client.get(path)
        few = count()
        for number in range(SPECS):
            revise(by, agent, 2.0 + number)
        assert count() <= few + 1 and few <= 12
        page = client.get(path)
        assert len(page.context["lines"]) == SPECS and page.context["older"] == "before=2"
        assert [line.spec.number for line in client.get(f"{path}?before=2").context["lines"]] == [1]

    def test_one_watches_the_calculation(self, agent: Any, by: Any, viewer: Any, page_client: Any) -> None:
        client, path = page_client(viewer), at("agent-rewards-status", agent)
        FeedbackFactory(decision=DecisionFactory(agent=agent))
        assert client.get(path).status_code == 286
        revise(by, agent, 2.0)
        waiting = client.get(path)
        assert waiting.status_code == 200 and "Waiting for a worker" in waiting.content.decode()
        run_job(Job.objects.get(kind=CALCULATE_REWARDS).id)
        done = client.get(path)
        assert done.status_code == 286 and "1 reward." in done.content.decode()


class TestChanging:
    @pytest.fixture
    def client(self, owner: Any, page_client: Any) -> Any:
        return page_client(owner)

    def test_what_was_looked_at_is_made_and_calculated(self, agent: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)
        shown = client.get(path).content.decode()
        assert hidden(shown)["base"] == "1" and "Components for other kinds of agents" in shown
        assert shown.index("filer.time") < shown.index("Components for other kinds") < shown.index("storer.edits")
        changes = {"use-filer.time": "on", "window-filer.time": "14", "missing-filer.time": "0"}
        sent = filled(agent, **{"weight-verdict": "2"}, **changes)
        preview = client.post(path, sent)
        text = preview.content.decode()
        assert preview.status_code == 200 and "<ins>weight: 2.0</ins>" in text and "Create version 2" in text
        assert agent.reward_specs.count() == 1 and not Job.objects.exists()
        made = client.post(path, sent | hidden(text) | {"make": "1"})
        assert made.status_code == 302 and made["Location"] == at("agent-rewards", agent)
        spec = current_reward_spec(agent)
        assert [(one["name"], one["weight"], one["window_days"]) for one in spec.components] == [
            ("verdict", 2.0, None),
            ("filer.time", 0.3, 14.0),
        ]
        assert spec.training_low == -1.0  # it follows the weight
        assert Job.objects.get(kind=CALCULATE_REWARDS).payload["agent_id"] == str(agent.id)

    def test_what_was_changed_after_the_look_is_shown_again_first(self, agent: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)
        seen = hidden(client.post(path, filled(agent, clamp="4")).content.decode())
        for more in (seen, {"seen": ""}):
            answer = client.post(path, filled(agent, clamp="3") | more | {"make": "1"})
            assert answer.status_code == 200 and "You changed the form after the comparison" in answer.content.decode()
        same = client.post(path, filled(agent) | {"make": "1"})
        assert "Nothing differs from version 1" in same.content.decode()
        assert agent.reward_specs.count() == 1

    def test_the_second_of_two_is_told_and_loses_nothing(self, agent: Any, by: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)
        mine = filled(agent, clamp="4")
        seen = hidden(client.post(path, mine).content.decode())
        revise(by, agent, 3.0)
        told = client.post(path, mine | seen | {"make": "1"})
        text = told.content.decode()
        assert told.status_code == 409 and agent.reward_specs.count() == 2
        assert "system created version 2 while you were editing version 1" in text
        made = client.post(path, filled(agent, clamp="4") | hidden(text) | {"make": "1"})
        assert made.status_code == 302, made.content
        spec = current_reward_spec(agent)
        assert (spec.number, spec.clamp, spec.components[0]["weight"]) == (3, 4.0, 3.0)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"weight-verdict": "1e-9"}, "is out of range"),
            ({"weight-verdict": "x"}, "Enter a number"),
            ({"use-verdict": None}, "none given"),
            ({"missing-verdict": "1"}, "given without a window"),
            ({"use-filer.time": "on", "parameter-filer.time-quick": "1e9"}, "a number from -1e+06"),
            ({"clamp": "0"}, "above 0"),
            ({"low": "3"}, "is not above low"),
            ({"credit": "fair"}, "Select a valid choice"),
            ({"signal": "prioritizer.acceptance"}, "is not a component of this spec"),
            ({"base": "7"}, "does not exist"),
        ],
        ids=lambda value: str(value)[:40],
    )
    @pytest.mark.quick_cases(3)
    def test_what_is_not_usable_stands_beside_its_field(
        self, agent: Any, client: Any, changes: dict[str, Any], says: str
    ) -> None:
        sent = {name: value for name, value in (filled(agent) | changes).items() if value is not None}
        answer = client.post(at("agent-rewards-edit", agent), sent | {"make": "1"})
        assert answer.status_code == 400 and says in answer.content.decode(), answer.content.decode()[-2000:]
        assert agent.reward_specs.count() == 1 and not Job.objects.exists()

    def test_a_rule_is_a_component_of_the_spec_and_stays(self, agent: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)
        rule = {"rule-0": "quick", "text-0": "1 if usage.latency_ms < 200 else 0", "weight-0": "0.5"}
        wrong = client.post(path, filled(agent) | rule | {"text-0": "9 ** 9"})
        assert wrong.status_code == 400 and "column 1" in wrong.content.decode()
        seen = hidden(client.post(path, filled(agent) | rule).content.decode())
        assert client.post(path, filled(agent) | rule | seen | {"make": "1"}).status_code == 302
        quick = current_reward_spec(agent).components[1]
        assert (quick["name"], quick["weight"], quick["rule"]["high"]) == ("rule.quick", 0.5, 1.0)
        same = client.post(path, filled(agent) | {"make": "1"})
        assert "Nothing differs from version 2" in same.content.decode()
        assert "1 if usage.latency_ms" in client.get(at("agent-rewards", agent)).content.decode()
        assert agent.reward_specs.count() == 2

    def test_the_defaults_of_an_agent_that_takes_its_options_with_each_decision(self, agent: Any, client: Any) -> None:
        agent.kind = "CUSTOM"
        agent.save()
        AgentVersionFactory(agent=agent, action_space="choice", options=None)
        initial = client.get(f"{at('agent-rewards-edit', agent)}?preset=kind").context["form"].initial
        assert (initial["use-verdict"], initial["use-episode.outcome"]) == (True, True)
        assert initial["parameter-episode.outcome-metric"] == "score"

    def test_presets_and_older_versions_begin_the_form(self, agent: Any, by: Any, client: Any) -> None:
        revise(by, agent, 2.0)
        path = at("agent-rewards-edit", agent)

        def used(query: str) -> set[str]:
            form = client.get(f"{path}?{query}").context["form"]
            return {name.removeprefix("use-") for name, value in form.initial.items() if name[:4] == "use-" and value}

        assert used("preset=kind") >= {"verdict", "calibration", "filer.time"}
        assert "trace.syntax" in used("preset=traces") and used("") == {"verdict"}
        assert client.get(f"{path}?from=1").context["form"].initial["weight-verdict"] == 1.0
        for query in ("from=9", "draft=x", "draft=01a1f805-50a4-7d43-a901-42a0ce80c4b0"):
            assert client.get(f"{path}?{query}").status_code == 404

    def test_a_file_is_shown_first_and_every_fault_of_it_is_told(self, agent: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)

        def upload(text: bytes) -> Any:
            return client.post(path, {"upload": "1", "file": SimpleUploadedFile("rewards.yaml", text)})

        faulty = upload(b"components: [{name: x}]\nclamp: 0")
        told = faulty.content.decode()
        assert faulty.status_code == 400 and "Components[0].name" in told and "Clamp: 0" in told
        assert "aliases are not allowed" in upload(b"a: &x 1\nb: *x").content.decode()
        assert client.post(path, {"upload": "1"}).status_code == 400
        good = upload(b"components: [{name: verdict, weight: 2}]").content.decode()
        assert "<ins>weight: 2.0</ins>" in good and agent.reward_specs.count() == 1
        sent = filled(agent, **{"weight-verdict": "2.0"}) | hidden(good) | {"make": "1"}
        assert client.post(path, sent).status_code == 302
        assert current_reward_spec(agent).components[0]["weight"] == 2.0

    def test_a_change_is_tried_on_past_decisions_first(self, agent: Any, by: Any, client: Any) -> None:
        path = at("agent-rewards-edit", agent)
        answer = client.post(path, filled(agent, **{"weight-verdict": "2"}) | {"draft": "1"})
        draft = RewardDraft.objects.get()
        assert answer["Location"] == at("reward-draft", agent, draft.id)
        assert agent.reward_specs.count() == 1 and draft.content["components"][0]["weight"] == 2.0
        theirs = SpecContent((ComponentSetup("verdict"), ComponentSetup("filer.time")))
        revise_reward_spec(by=by, agent=agent, expected=1, content=theirs)
        stale = client.get(at("reward-draft", agent, draft.id)).content.decode()
        assert "was created after this draft" in stale and "Publish as" not in stale
        told = client.post(at("reward-draft-publish", agent, draft.id), follow=True).content.decode()
        assert "There is a newer version than this draft is based on" in told and agent.reward_specs.count() == 2
        again = client.get(f"{path}?draft={draft.id}").context["form"].initial
        assert again["weight-verdict"] == 2.0 and again["use-filer.time"]  # on top of their change
