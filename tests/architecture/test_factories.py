"""Every model of the project has a factory, and each factory makes a row that the database accepts."""

import pytest
from django.apps import apps

from tools.factories import MODEL_FACTORIES

OUR_APPS = ("workspaces", "jobs", "models_registry", "decisions", "training")
OUR_MODELS = [model for app in OUR_APPS for model in apps.get_app_config(app).get_models()]


def test_every_model_has_a_factory():
    assert {m._meta.label for m in OUR_MODELS} == {m._meta.label for m in MODEL_FACTORIES}


@pytest.mark.django_db
@pytest.mark.parametrize("model", OUR_MODELS, ids=lambda model: model._meta.label)
def test_a_factory_makes_a_row_of_one_workspace(model):
    made = MODEL_FACTORIES[model]()
    found = model.objects.get(pk=made.pk)
    for field in model._meta.concrete_fields:
        related = getattr(found, field.name) if field.is_relation else None
        if related is not None and hasattr(found, "workspace") and hasattr(related, "workspace"):
            assert related.workspace == found.workspace, field.name
