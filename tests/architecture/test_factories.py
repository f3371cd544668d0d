"""Every model of the project has a factory, and each factory makes a row that the database accepts."""

import pytest
from django.apps import apps
from django.db import connection, transaction

from tools.factories import MODEL_FACTORIES

OUR_APPS = ("workspaces", "jobs", "models_registry", "decisions", "training")
OUR_MODELS = [model for app in OUR_APPS for model in apps.get_app_config(app).get_models()]


def test_every_model_has_a_factory():
    assert {m._meta.label for m in OUR_MODELS} == {m._meta.label for m in MODEL_FACTORIES}


@pytest.mark.django_db
def test_each_factory_makes_a_row_of_one_workspace():
    faults = [fault for model in OUR_MODELS if model in MODEL_FACTORIES for fault in factory_faults(model)]
    assert not faults, "\n".join(faults)


def factory_faults(model):
    """What is wrong with the row that the model's factory makes; the row is undone."""
    try:
        with transaction.atomic():
            made = MODEL_FACTORIES[model]()
            connection.check_constraints()  # deferred ones, too
            row = model.objects.get(pk=made.pk)
            for field in model._meta.concrete_fields:
                related = getattr(row, field.name) if field.is_relation else None
                of_a_workspace = hasattr(row, "workspace") and hasattr(related, "workspace")
                if of_a_workspace and related.workspace != row.workspace:
                    yield f"{model._meta.label}: its {field.name} is of another workspace"
            transaction.set_rollback(True)
    except Exception as error:  # noqa: BLE001 - the database's and the factory's own; each is named
        yield f"{model._meta.label}: {type(error).__name__}: {error}"
