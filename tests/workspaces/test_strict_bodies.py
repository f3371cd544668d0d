"""A misspelt field is an error with its name, beside every other fault, and nothing is written."""

import pytest

from decisions.models import Agent

pytestmark = pytest.mark.django_db
BODY = {"slug": "filer", "name": "Filer", "prompt_template": "{{ text }}", "options": ["a", "b"]}


def test_known_fields_are_taken(api):
    assert api().post("agents", BODY).status_code == 201


def test_an_unknown_field_is_named_beside_the_other_faults(api):
    answer = api().post("agents", BODY | {"epsilom": 0.2, "name": ""})
    assert answer.status_code == 400
    assert {fault["field"] for fault in answer.json()["error"]["fields"]} == {"epsilom", "name"}
    assert not Agent.objects.exists()
