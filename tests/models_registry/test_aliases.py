"""Aliases that are reverted, and versions that are approved before they get traffic, over the API."""

import uuid

import pytest

from models_registry.models import Alias, AliasMove, Deployment, ModelVersion
from tools.factories import DeploymentFactory, ModelVersionFactory
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(api):
    return api("admin")


def champion(model):
    return str(Alias.objects.get(registered_model=model, name="champion").version)


class TestRevert:
    def test_the_last_move_is_taken_back_and_kept_with_who_and_why(self, admin, model, challenger):
        admin.post(f"versions/{challenger}/promote", {"reason": "better"})
        path = f"models/{model.id}/aliases/revert"
        made = admin.post(path, {"alias": "champion"})
        assert (made.status_code, made.json()["before"], made.json()["after"]) == (200, "filer:2", "filer:1")
        assert made.json()["by"].startswith("key:") and made.json()["reason"].startswith("reverts the move of ")
        assert champion(model) == "filer:1"
        assert AuditEntry.objects.filter(action="alias.champion").count() == 2
        again = admin.post(path, {"alias": "champion", "move": made.json()["id"], "reason": "it was better"})
        assert (again.json()["after"], again.json()["reason"], champion(model)) == (
            "filer:2",
            "it was better",
            "filer:2",
        )

    def test_an_alias_that_was_new_goes_again(self, admin, model, challenger):
        admin.post(f"versions/{challenger}/aliases", {"alias": "tried"})
        made = admin.post(f"models/{model.id}/aliases/revert", {"alias": "tried"}).json()
        assert (made["before"], made["after"]) == ("filer:2", None)
        assert not Alias.objects.filter(name="tried").exists()

    def test_what_was_moved_meanwhile_or_never_stays(self, admin, model, challenger):
        path = f"models/{model.id}/aliases/revert"
        never = admin.post(path, {"alias": "champion"})
        admin.post(f"versions/{challenger}/promote", {"reason": "better"})
        stale = admin.post(path, {"alias": "champion", "move": str(uuid.uuid4())})
        first = AliasMove.objects.get()
        AliasMove.objects.update(before=None)
        without_one_before = admin.post(path, {"alias": "champion"})
        for refused in (never, stale, without_one_before):
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "cannot_revert")
        assert (champion(model), AliasMove.objects.get().id) == ("filer:2", first.id)

    def test_a_retired_version_gets_no_alias_back(self, admin, model, challenger):
        third = ModelVersionFactory(registered_model=model)
        for version in (challenger, third):
            admin.post(f"versions/{version}/aliases", {"alias": "tried"})
        assert admin.post(f"versions/{challenger}/retire", {"reason": "old"}).status_code == 200
        refused = admin.post(f"models/{model.id}/aliases/revert", {"alias": "tried"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "version_retired")
        assert Alias.objects.get(name="tried").version == third


class TestApproval:
    def test_a_workspace_may_want_it_before_traffic(self, admin, model, challenger):
        assert admin.request("PATCH", "workspace", {"approval_required": True}).json()["approval_required"] is True
        tries = [
            (f"versions/{challenger}/promote", {"reason": "better"}),
            ("experiments", {"treatment": str(challenger), "reason": "better"}),
        ]
        for path, body in tries:
            refused = admin.post(path, body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_approved")
        assert champion(model) == "filer:1"
        shown = admin.post(f"versions/{challenger}/approve", {"note": "read 50 of its answers"}).json()
        assert (shown["approved_by"][:4], shown["approval_note"]) == ("key:", "read 50 of its answers")
        assert admin.post(*tries[0]).status_code == 200
        # The one before was never approved, but served: a revert waits for nobody.
        assert admin.post(f"models/{model.id}/aliases/revert", {"alias": "champion"}).status_code == 200
        assert champion(model) == "filer:1"
        assert admin.post(f"versions/{challenger}/approve/withdraw").json()["approved_at"] is None
        assert admin.post(*tries[1]).status_code == 409
        actions = AuditEntry.objects.filter(target=f"model_version:{challenger.id}", action__contains="approv")
        assert set(actions.values_list("action", flat=True)) == {"version.approved", "version.approval_withdrawn"}

    def test_tags_and_notes_are_kept_and_what_is_no_tag_is_refused(self, admin, challenger):
        path = f"versions/{challenger}"
        admin.request("PATCH", path, {"tags": ["b", "a", "a"], "notes": "of October"})
        assert admin.request("PATCH", path, {"tags": ["two words"]}).status_code == 400
        kept = ModelVersion.objects.get(id=challenger.id)
        assert (kept.tags, kept.notes) == (["a", "b"], "of October")


def test_a_deployment_is_switched_off_unless_it_is_the_last_place_of_a_model_that_serves(admin, model):
    remote = ModelVersionFactory(registered_model=model, artifact=None, remote_name="gpt")
    first, second = (DeploymentFactory(version=remote) for _ in range(2))
    Alias.objects.filter(registered_model=model).update(version=remote)
    answer = admin.request("PATCH", f"deployments/{first.id}", {"priority": 7, "enabled": False})
    assert (answer.json()["priority"], answer.json()["enabled"]) == (7, False)
    refused = admin.request("PATCH", f"deployments/{second.id}", {"enabled": False})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
    assert Deployment.objects.get(id=second.id).enabled
