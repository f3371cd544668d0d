"""Backends, remote versions, deployments, aliases and calls over the API, on a server that answers as it is told."""

import pytest

from decisions.models import Decision
from models_registry.models import Alias, AliasMove, Backend, Call, Deployment, ModelVersion
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(api):
    return api("admin")


@pytest.fixture
def server(serve):
    made = serve()
    made.models = ["gpt"]
    return made


@pytest.fixture
def backend(admin, server):
    answer = admin.post("backends", {"name": "ours", "url": server.url, "price_in": "1", "price_out": "10"})
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_from_nothing_to_a_decision_of_a_remote_model(admin, api, agent, backend, server):
    """No weights are here, and no model server runs."""
    model = agent.registered_model
    version = admin.post("remote-versions", {"model": model.name, "remote_name": "gpt", "backend": backend["id"]})
    assert (version.status_code, version.json()["kind"], version.json()["aliases"]) == (201, "remote", ["champion"])
    assert admin.post(f"backends/{backend['id']}/check").json()["state"] == "up"
    server.pick = agent.versions.first().options[1]
    answer = api("route:read").post(f"agents/{agent.slug}/decide", {"state": {"text": "Flight to Rome"}})
    assert (answer.status_code, answer.json()["confidence"]) == (201, None)
    [call] = admin.get("calls?state=answered").json()["results"]
    assert call["id"] == answer.json()["decision_id"] == str(Decision.objects.get().id)
    assert (call["assigned"], call["served"], call["backend"]) == (str(ModelVersion.objects.get()),) * 2 + ("ours",)
    assert float(call["cost"]) == pytest.approx(50e-6)
    assert admin.get("calls?state=open").json()["results"] == []
    assert admin.get("calls?state=lost").status_code == 400


class TestBackends:
    def test_one_is_changed_switched_off_and_removed(self, admin, backend, settings):
        settings.BACKEND_KEYS = [f"SOME_API_KEY={backend['url']}"]
        path = f"backends/{backend['id']}"
        changed = admin.request("PATCH", path, {"enabled": False, "key_variable": "SOME_API_KEY"}).json()
        assert (changed["enabled"], changed["key_variable"], changed["url"]) == (False, "SOME_API_KEY", backend["url"])
        assert admin.request("DELETE", path).status_code == 200
        assert not Backend.objects.exists()
        actions = (
            AuditEntry.objects.filter(action__startswith="backend.").order_by("id").values_list("action", flat=True)
        )
        assert list(actions) == ["backend.added", "backend.changed", "backend.removed"]

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"url": "https://elsewhere.example/v1"}, "url"),
            ({"url": "http://127.0.0.1:1\n/v1"}, "url"),
            ({"url": "http://127.0.0.1:1/\u2028v1"}, "url"),
            ({"key_variable": "sk-live-0123"}, "key_variable"),
            ({"key_variable": "RECKONER_SECRET_KEY"}, "key_variable"),
            ({"key_variable": "RECKONER_INTERNAL_API_KEY"}, "key_variable"),
            ({"key_variable": "OPENAI_API_KEY"}, "key_variable"),
            ({"capabilities": ["sing"]}, "capabilities"),
            ({"timeout_seconds": 0}, "timeout_seconds"),
            ({"retries": 6}, "retries"),
            ({"price_out": "-1"}, "price_out"),
            ({"kind": "vllm"}, "kind"),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(self, admin, backend, changes, field):
        before = Backend.objects.values().get()
        answer = admin.request("PATCH", f"backends/{backend['id']}", changes)
        assert answer.status_code == 400
        assert any(fault["field"].startswith(field) for fault in answer.json()["error"]["fields"])
        assert Backend.objects.values().get() == before

    def test_every_fault_of_a_new_one_is_told_at_once(self, admin, backend):
        answer = admin.post("backends", {"name": "Our GPT", "url": "file:///etc/passwd", "key_variable": "PATH"})
        fields = {fault["field"] for fault in answer.json()["error"]["fields"]}
        assert (answer.status_code, fields) == (400, {"name", "url", "key_variable"})
        assert admin.post("backends", {"name": "ours", "url": backend["url"]}).status_code == 400
        assert Backend.objects.count() == 1

    def test_one_that_is_depended_on_stays(self, admin, agent, backend):
        body = {"model": agent.registered_model.name, "remote_name": "gpt", "backend": backend["id"]}
        version = admin.post("remote-versions", body).json()
        [deployment] = admin.get(f"versions/{version['id']}/deployments").json()
        for refused in (
            admin.request("DELETE", f"backends/{backend['id']}"),
            admin.request("DELETE", f"deployments/{deployment['id']}"),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
        assert (Backend.objects.count(), Deployment.objects.count()) == (1, 1)


class TestDeployments:
    @pytest.fixture
    def version(self, admin, agent, backend):
        body = {"model": agent.registered_model.name, "remote_name": "gpt", "backend": backend["id"]}
        return admin.post("remote-versions", body).json()

    def test_they_are_listed_in_the_order_in_which_they_are_asked(self, admin, version, backend, server):
        second = admin.post("backends", {"name": "second", "url": server.url}).json()
        path = f"versions/{version['id']}/deployments"
        assert admin.post(path, {"backend": second["id"], "remote_name": "gpt-2", "priority": 3}).status_code == 201
        listed = admin.get(path).json()
        assert [(one["backend"], one["remote_name"], one["priority"]) for one in listed] == [
            ("ours", "", 0),
            ("second", "gpt-2", 3),
        ]
        assert admin.request("DELETE", f"deployments/{listed[0]['id']}").status_code == 200
        assert [one["backend"] for one in admin.get(path).json()] == ["second"]

    @pytest.mark.parametrize("body", [{}, {"priority": -1}, {"priority": 1001}, {"remote_name": "x" * 201}])
    def test_what_is_there_or_out_of_range_is_refused(self, admin, version, backend, body):
        assert (
            admin.post(f"versions/{version['id']}/deployments", {"backend": backend["id"], **body}).status_code == 400
        )
        assert Deployment.objects.count() == 1

    def test_aliases_move_with_a_reason_and_keep_their_history(self, admin, version, agent):
        path = f"versions/{version['id']}/aliases"
        assert admin.post(path, {"alias": "tried", "reason": "cheap"}).json()["aliases"] == ["champion", "tried"]
        assert admin.post(f"{path}/remove", {"alias": "tried"}).json()["aliases"] == ["champion"]
        moves = admin.get(f"models/{agent.registered_model_id}/alias-moves").json()["results"]
        assert [(one["alias"], one["before"], one["after"], one["reason"]) for one in moves] == [
            ("tried", version["name"], None, ""),
            ("tried", None, version["name"], "cheap"),
            ("champion", None, version["name"], ""),
        ]

    @pytest.mark.parametrize("name", ["champion", "challenger", "Not-A-Name"])
    def test_what_promotions_and_experiments_move_is_not_free(self, admin, version, name):
        assert admin.post(f"versions/{version['id']}/aliases", {"alias": name}).status_code == 400
        assert (Alias.objects.count(), AliasMove.objects.count(), Call.objects.count()) == (1, 1, 0)
