"""The playground: another version is asked about a decision or an episode, and nothing is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from decisions.agents.revising import revise_agent
from decisions.models import Decision
from models_registry.models import Call, ModelVersion
from models_registry.versions.services import NewVersion, register_version
from tests.architecture.test_api_matrix import state_of_everything
from tools.factories import (
    OPTIONS,
    BackendFactory,
    DecisionFactory,
    DeploymentFactory,
    EpisodeFactory,
    RewardFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(serve: Callable[[], Any]) -> Any:
    """It picks the first option."""
    one = serve()
    one.models, one.pick = ["old", "new"], OPTIONS[0]
    return one


@pytest.fixture
def version(agent: Any, by: Any, server: Any) -> ModelVersion:
    backend = BackendFactory(workspace=by.workspace, url=server.url, retries=0)
    for name in ("old", "new"):
        made = register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name=name, method="remote"))
        DeploymentFactory(version=made, backend=backend)
    return made


@pytest.fixture
def decision(agent: Any, by: Any) -> Decision:
    """The second option was drawn, and earned little; the agent's system prompt is another one by now."""
    revise_agent(by=by, agent=agent, expected=1, changes={"system_prompt": "File notes."})
    shares = [0.5, 0.3, *[0.2 / (len(OPTIONS) - 2)] * (len(OPTIONS) - 2)]
    made = DecisionFactory(
        agent=agent,
        action=OPTIONS[1],
        propensity=shares[1],
        temperature=1.0,
        epsilon=0.3,
        alternatives=[{"action": o, "probability": p} for o, p in zip(OPTIONS, shares, strict=True)],
    )
    RewardFactory(decision=made, value=0.25)
    revise_agent(by=by, agent=agent, expected=2, changes={"system_prompt": "File recipes."})
    return made


class TestADecision:
    @pytest.mark.parametrize(("epsilon", "now"), [(0.1, 0.02), (0.0, 0.0)])
    def test_is_asked_within_the_budget_that_bound_it_and_greedily_where_it_was_greedy(
        self, epsilon: float, now: float, agent: Any, by: Any, version: ModelVersion, api: Any
    ) -> None:
        revise_agent(by=by, agent=agent, expected=1, changes={"epsilon": 0.3, "exploration_budget": 20})
        made = DecisionFactory(agent=agent, action=OPTIONS[0], propensity=0.9, temperature=None, epsilon=epsilon)
        told = api("route:read").post(f"decisions/{made.id}/ask", {"version": str(version)}).json()
        assert told["offers"][0]["now"] == pytest.approx(1 - now)

    def test_is_asked_again_side_by_side_and_nothing_is_recorded(
        self, decision: Decision, version: ModelVersion, server: Any, api: Any
    ) -> None:
        client = api("route:read")
        before = state_of_everything()
        told = client.post(f"decisions/{decision.id}/ask", {"version": str(version)}).json()
        assert (told["version"], told["action"], told["pick"], told["agrees"]) == (
            str(version), OPTIONS[1], OPTIONS[0], False
        )  # fmt: skip
        assert (told["reward"], told["propensity"], told["edited"], told["named"]) == (0.25, 0.3, False, True)
        first, second = told["offers"][:2]
        uniform = 0.3 / len(OPTIONS)
        assert (first["then"], first["thought"], first["picked"], first["taken"]) == (0.5, 1.0, True, False)
        assert first["now"] == pytest.approx(0.7 + uniform) and second["now"] == pytest.approx(uniform)
        assert (second["then"], second["taken"]) == (0.3, True)
        assert server.asked[-1]["model"] == "new"
        assert server.asked[-1]["messages"][0] == {"role": "system", "content": "File notes."}
        assert state_of_everything() == before and not Call.objects.exists()

    def test_may_be_edited(self, decision: Decision, version: ModelVersion, server: Any, api: Any) -> None:
        client = api("route:read")
        server.pick = "garden"
        edits = {"version": str(version), "state": {"text": "roses"}, "options": ["garden", OPTIONS[1]]}
        told = client.post(f"decisions/{decision.id}/ask", edits).json()
        assert told["edited"] and [offer["then"] for offer in told["offers"]] == [None, 0.3]
        assert "roses" in json.dumps(server.asked[-1])
        for wrong, field in (({"state": {"note": "x"}}, "state.text"), ({"options": ["a", "a"]}, "options")):
            refused = client.post(f"decisions/{decision.id}/ask", edits | wrong)
            assert refused.status_code == 400 and refused.json()["error"]["fields"][0]["field"] == field
        assert client.post(f"decisions/{decision.id}/ask", edits | {"version": "filer:99"}).status_code == 404
        server.answers.append((400, {"error": {"message": "overloaded"}}))
        assert client.post(f"decisions/{decision.id}/ask", edits).status_code == 503

    def test_is_asked_on_its_page(
        self, decision: Decision, version: ModelVersion, agent: Any, labeller: Any, viewer: Any, page_client: Any
    ) -> None:
        path = f"/w/{agent.workspace.slug}/decisions/{decision.id}/ask"
        browser, onlooker = page_client(labeller), page_client(viewer)
        assert str(decision.state["text"]) in browser.get(path).content.decode()
        before = state_of_everything()
        form = {"version": str(version.id), "state": json.dumps(decision.state), "options": "\n".join(OPTIONS)}
        page = browser.post(path, form).content.decode()
        assert f"{version} would do something else" in page and "30.0%" in page and "0.25" in page
        refused = browser.post(path, form | {"state": "[1"})
        assert refused.status_code == 400 and "valid JSON" in refused.content.decode()
        assert onlooker.post(path, form).status_code == 403
        assert state_of_everything() == before


class TestAnEpisode:
    @pytest.fixture
    def episode(self, agent: Any) -> Any:
        """Four decisions; the third one is not what the version would do."""
        one = EpisodeFactory(agent=agent)
        for number, action in enumerate((OPTIONS[0], OPTIONS[0], OPTIONS[1], OPTIONS[0])):
            DecisionFactory(agent=agent, episode=one, step_number=number, action=action)
        return one

    def test_is_asked_until_its_states_would_be_others(
        self, episode: Any, version: ModelVersion, server: Any, api: Any, labeller: Any, page_client: Any
    ) -> None:
        client = api("route:read")
        before = state_of_everything()
        told = client.post(f"episodes/{episode.id}/ask", {"version": str(version), "step": 2}).json()
        assert [(step["step"], step["comparison"]["agrees"]) for step in told["steps"]] == [(2, True), (3, False)]
        assert "another policy's" in told["ended"] and told["decisions"] == 4 and len(server.asked) == 2
        last = client.post(f"episodes/{episode.id}/ask", {"version": str(version), "step": 4}).json()
        assert (len(last["steps"]), last["ended"]) == (1, "")
        assert client.post(f"episodes/{episode.id}/ask", {"version": str(version), "step": 5}).status_code == 400
        assert state_of_everything() == before
        path = f"/w/{episode.workspace.slug}/episodes/{episode.id}/ask"
        page = page_client(labeller).post(path, {"version": str(version.id), "step": "1"}).content.decode()
        assert "It stopped after decision 3." in page and "3 of 4 decisions" in page
