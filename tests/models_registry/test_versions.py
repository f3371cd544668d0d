"""Numbers, aliases, and what the database refuses of the registry."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F

from models_registry.errors import NoChampion, NotAPolicy, NotStored, UnknownVersion
from models_registry.models import Alias, AliasMove, AliasName, ModelVersion
from models_registry.versions.references import find_version
from models_registry.versions.services import (
    NewVersion,
    drop_alias,
    get_champion,
    locate_version,
    move_alias,
    register_model,
    register_version,
)
from tools.factories import (
    AliasFactory,
    AliasMoveFactory,
    ArtifactFactory,
    BackendFactory,
    CallFactory,
    DeploymentFactory,
    ExperimentFactory,
    ExposureFactory,
    GateVerdictFactory,
    ModelVersionFactory,
    ObservationFactory,
    PhaseFactory,
    RegisteredModelFactory,
    VariantFactory,
    WorkspaceFactory,
)
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def model(by):
    return register_model(by=by, name="filer")


def register(by, model, **fields):
    artifact = ArtifactFactory(workspace=by.workspace)
    return register_version(by=by, model=model, new=NewVersion(artifact=artifact, method="import", **fields))


def test_versions_are_numbered_and_the_first_one_serves(by, model):
    with pytest.raises(NoChampion):
        get_champion(model)
    first, second = register(by, model), register(by, model)
    assert [first.number, second.number, str(second)] == [1, 2, "filer:2"]
    assert get_champion(model) == first
    assert list(AuditEntry.objects.values_list("action", flat=True).order_by("id")) == [
        "model.registered",
        "alias.champion",
        "version.registered",
        "version.registered",
    ]


def test_a_model_is_registered_once(by, model):
    assert register_model(by=by, name="filer") == model
    assert AuditEntry.objects.filter(action="model.registered").count() == 1


@pytest.mark.django_db(transaction=True)
def test_numbers_given_out_at_once_are_all_different(by, at_once):
    model = register_model(by=by, name="filer")
    made = at_once(6, lambda: register(by, model).number)
    assert sorted(made) == [1, 2, 3, 4, 5, 6]
    assert Alias.objects.get().version.number == 1


@pytest.mark.django_db(transaction=True)
def test_champions_moved_at_once_leave_one(by, at_once):
    model = register_model(by=by, name="filer")
    versions = [register(by, model) for _ in range(6)]
    todo = iter(versions)
    at_once(6, lambda: move_alias(by=by, version=next(todo), name=AliasName.CHAMPION))
    alias = Alias.objects.get(registered_model=model, name="champion")
    moves = AuditEntry.objects.filter(action="alias.champion").order_by("-id")
    assert moves.count() == 7
    assert get_champion(model) == alias.version


@pytest.mark.django_db(transaction=True)
def test_first_champions_set_at_once_leave_one(by, at_once):
    model = register_model(by=by, name="filer")
    versions = [ModelVersionFactory(registered_model=model) for _ in range(4)]
    todo = iter(versions)
    at_once(4, lambda: move_alias(by=by, version=next(todo), name=AliasName.CHAMPION))
    assert Alias.objects.filter(registered_model=model).count() == 1


@pytest.mark.parametrize(
    ("factory", "fields"),
    [
        (ArtifactFactory, {"digest": "g" * 64}),
        (ArtifactFactory, {"digest": "A" * 64}),
        (ArtifactFactory, {"kind": "poem"}),
        (ModelVersionFactory, {"number": 0}),
        (ModelVersionFactory, {"state": "asleep"}),
        (AliasFactory, {"name": "The Emperor"}),
        (ModelVersionFactory, {"remote_name": "gpt-4o-mini"}),
        (ModelVersionFactory, {"artifact": None}),
        (BackendFactory, {"kind": "oracle"}),
        (BackendFactory, {"capabilities": ["score", "sing"]}),
        (BackendFactory, {"key_variable": "sk-live-1234"}),
        (BackendFactory, {"key_variable": "RECKONER_SECRET_KEY"}),
        (BackendFactory, {"timeout_seconds": 0.0}),
        (BackendFactory, {"price_out": -1}),
        (CallFactory, {"state": "answered", "closed_at": "2026-01-01T00:00:00Z"}),
        (CallFactory, {"state": "failed", "closed_at": "2026-01-01T00:00:00Z"}),
        (CallFactory, {"closed_at": "2026-01-01T00:00:00Z"}),
        (CallFactory, {"cost": -1}),
        (GateVerdictFactory, {"low": 0.2}),
        (GateVerdictFactory, {"high": 0.0}),
        (ExperimentFactory, {"state": "promoted"}),
        (ExperimentFactory, {"ended_at": "2026-01-01T00:00:00Z"}),
        (ExperimentFactory, {"salt": "short"}),
        (ExperimentFactory, {"promote_e": 1.0}),
        (ExperimentFactory, {"missing": "guess"}),
        (PhaseFactory, {"treatment_share": 0.0}),
        (PhaseFactory, {"treatment_share": 1.0}),
        (PhaseFactory, {"attribution_window_seconds": -1.0}),
        (VariantFactory, {"arm": "third"}),
        (ExposureFactory, {"assignment_probability": 0.0}),
        (ExposureFactory, {"served_arm": "treatment"}),
        (ObservationFactory, {"outcome": 1.5}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_an_impossible_row_is_refused(factory, fields):
    with pytest.raises(IntegrityError), transaction.atomic():
        factory(**fields)


@pytest.mark.parametrize(
    ("factory", "again"),
    [
        (RegisteredModelFactory, ("workspace", "name")),
        (ModelVersionFactory, ("registered_model", "number")),
        (AliasFactory, ("registered_model", "name")),
        (BackendFactory, ("workspace", "name")),
        (DeploymentFactory, ("version", "backend", "remote_name")),
        (ExperimentFactory, ("registered_model",)),
        (PhaseFactory, ("experiment",)),
        (VariantFactory, ("experiment", "arm")),
        (ExposureFactory, ("phase", "unit")),
        (ObservationFactory, ("exposure",)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_unique_is_there_once(factory, again):
    first = factory()
    with pytest.raises(IntegrityError), transaction.atomic():
        factory(**{name: getattr(first, name) for name in again})


def test_a_version_is_not_its_own_base():
    version = ModelVersionFactory()
    for name in ("base", "parent"):
        with pytest.raises(IntegrityError), transaction.atomic():
            ModelVersion.objects.filter(id=version.id).update(**{name: version})


class TestApi:
    def test_promoting_by_hand_moves_the_alias_and_says_who(self, api, by, model):
        register(by, model)
        second = register(by, model)
        client = api("admin")
        answer = client.post(f"versions/{second.id}/promote", {"reason": "better"})
        assert (answer.status_code, answer.json()["aliases"]) == (200, ["champion"])
        assert get_champion(model) == second
        entry = AuditEntry.objects.filter(action="alias.champion").latest("id")
        assert (entry.actor, entry.details) == (
            f"key:{client.key.prefix}",
            {"name": "filer:2", "reason": "better"},
        )
        assert client.get("models").json()["results"][0]["champion"] == "filer:2"

    def test_a_version_shows_what_it_is(self, api, by, model):
        base = register(by, model)
        version = register(by, model, base=base, parent=base, description="d", metrics={"loss": 0.5})
        shown = api("export:read").get(f"versions/{version.id}").json()
        assert shown["name"] == "filer:2"
        assert shown["base"] == shown["parent"] == str(base.id)
        assert (shown["digest"], shown["metrics"]) == (version.artifact.digest, {"loss": 0.5})


def moves(model):
    """(name, before, after, reason) of each change of the model's aliases, oldest first; versions by number."""
    found = AliasMove.objects.filter(registered_model=model).order_by("id").select_related("before", "after")
    return [(m.name, m.before and m.before.number, m.after and m.after.number, m.reason) for m in found]


class TestAliases:
    def test_their_names_are_free_and_each_change_is_a_row(self, by, model):
        first, second = register(by, model), register(by, model)
        move_alias(by=by, version=first, name="long-notes", reason="reads them well")
        move_alias(by=by, version=first, name="long-notes")
        move_alias(by=by, version=second, name="long-notes")
        assert drop_alias(by=by, version=second, name="long-notes", reason="retired")
        assert moves(model) == [
            ("champion", None, 1, ""),
            ("long-notes", None, 1, "reads them well"),
            ("long-notes", 1, 2, ""),
            ("long-notes", 2, None, "retired"),
        ]
        assert AliasMove.objects.filter(by=by.name).count() == 4

    @pytest.mark.parametrize("fields", [{"after": None}, {"before": F("after")}], ids=["nowhere", "unmoved"])
    def test_a_move_that_moves_nothing_is_no_row(self, fields):
        move = AliasMoveFactory()
        with pytest.raises(IntegrityError), transaction.atomic():
            AliasMove.objects.filter(id=move.id).update(**fields)

    @pytest.mark.parametrize("name", ["", "Champion", "two words", "7", "a" * 64, "café"])
    def test_what_is_no_name_changes_nothing(self, by, model, name):
        version = register(by, model)
        with pytest.raises(InvalidInput, match="alias"):
            move_alias(by=by, version=version, name=name)
        assert moves(model) == [("champion", None, 1, "")]

    @pytest.mark.parametrize("kind", ["reward_model", "encoder"])
    def test_what_is_no_policy_may_be_named_but_not_serve(self, by, model, kind):
        judge = ModelVersionFactory(registered_model=model, artifact=ArtifactFactory(workspace=by.workspace, kind=kind))
        move_alias(by=by, version=judge, name="judge")
        for name in AliasName.values:
            with pytest.raises(NotAPolicy):
                move_alias(by=by, version=judge, name=name)
        assert moves(model) == [("judge", None, judge.number, "")]


class TestRemoteVersions:
    @pytest.fixture
    def remote(self, by, model):
        return register_version(by=by, model=model, new=NewVersion(remote_name="gpt-4o-mini", method="remote"))

    def test_one_is_a_version_like_any_other(self, by, model, remote, api):
        assert (remote.kind, remote.base_model, remote.is_remote) == ("remote", "gpt-4o-mini", True)
        assert not (remote.is_adapter or remote.is_reward_model)
        assert get_champion(model) == remote
        [shown] = api("export:read").get("/api/v1/versions").json()["results"]
        assert (shown["kind"], shown["digest"], shown["remote_name"]) == ("remote", None, "gpt-4o-mini")

    def test_its_weights_are_not_here(self, remote):
        with pytest.raises(NotStored, match="gpt-4o-mini"):
            locate_version(remote)


class TestReferences:
    @pytest.fixture
    def second(self, by, model):
        register(by, model)
        version = register(by, model)
        move_alias(by=by, version=version, name="long-notes")
        return version

    @pytest.mark.parametrize(
        "reference", ["filer:2", "filer@long-notes", "models:/filer/2", "models:/filer@long-notes"]
    )
    def test_every_form_finds_the_version(self, by, second, reference, django_assert_num_queries):
        with django_assert_num_queries(1):
            found = find_version(by.workspace, reference)
            assert (found, str(found)) == (second, "filer:2")

    @pytest.mark.parametrize(
        ("reference", "reason"),
        [
            (
                "filer:3",
                "no version 3. Its newest version is filer:2; aliases: champion, long-notes. Write its ID, name:7",
            ),
            ("filer:999999999", "no version"),
            ("filer@champ", "alias champ"),
            ("models:/storer/1", "no model storer. Models: filer. Write its ID, name:7"),
            ("filer", "is not a version. Models: filer. Write"),
            ("filer:2 ", "is not a version"),
            ("runs:/filer/2", "is not a version"),
            ("01a1f8ed-5f8c-727a-85c4-051211072231", "No version has the ID"),
        ],
    )
    def test_others_are_refused_with_a_reason(self, by, second, reference, reason):
        with pytest.raises(UnknownVersion, match=reason):
            find_version(by.workspace, reference)

    def test_the_api_takes_them_and_says_what_there_is(self, second, api):
        admin = api("admin")
        assert admin.get("versions/filer@long-notes").json()["id"] == str(second.id)
        refused = admin.post("experiments", {"treatment": "models:/filer/9", "reason": "better"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["fields"][0]["field"]) == (
            404,
            "unknown_version",
            "treatment",
        )
        assert "Its newest version is filer:2" in error["message"]

    def test_a_version_is_retired_once_nothing_uses_it_and_restored(self, second, api):
        admin, reason = api("admin"), {"reason": "the third is better"}
        in_use = admin.post("versions/filer:2/retire", reason)
        assert (in_use.status_code, in_use.json()["error"]["code"]) == (409, "version_in_use")
        assert ModelVersion.objects.get(id=second.id).state == "ready"
        admin.post("versions/filer:2/aliases/remove", {"alias": "long-notes"})
        assert admin.post("versions/filer:2/retire", reason).json()["state"] == "retired"
        assert AuditEntry.objects.get(action="version.retired").details["reason"] == reason["reason"]
        assert admin.post("versions/filer:2/restore").json()["state"] == "ready"

    def test_another_workspace_finds_nothing(self, second):
        with pytest.raises(UnknownVersion):
            find_version(WorkspaceFactory(), "filer:2")
