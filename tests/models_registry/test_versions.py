"""Numbers, aliases, and what the database refuses of the registry."""

import pytest
from django.db import IntegrityError, transaction

from models_registry.errors import NoChampion
from models_registry.models import Alias, AliasName, ModelVersion
from models_registry.services import NewVersion, get_champion, move_alias, register_model, register_version
from tools.factories import (
    AliasFactory,
    ArtifactFactory,
    ExperimentFactory,
    ExposureFactory,
    GateVerdictFactory,
    ModelVersionFactory,
    ObservationFactory,
    PhaseFactory,
    RegisteredModelFactory,
    VariantFactory,
)
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
        (AliasFactory, {"name": "emperor"}),
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
        answer = client.post(f"versions/{second.id}/promote")
        assert (answer.status_code, answer.json()["aliases"]) == (200, ["champion"])
        assert get_champion(model) == second
        entry = AuditEntry.objects.filter(action="alias.champion").latest("id")
        assert (entry.actor, entry.details) == (
            f"key:{client.key.prefix}",
            {"name": "filer:2", "reason": "promoted by hand"},
        )
        assert client.get("models").json()["results"][0]["champion"] == "filer:2"

    def test_a_version_shows_what_it_is(self, api, by, model):
        base = register(by, model)
        version = register(by, model, base=base, parent=base, description="d", metrics={"loss": 0.5})
        shown = api("export:read").get(f"versions/{version.id}").json()
        assert shown["name"] == "filer:2"
        assert shown["base"] == shown["parent"] == str(base.id)
        assert (shown["digest"], shown["metrics"]) == (version.artifact.digest, {"loss": 0.5})
