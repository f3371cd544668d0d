"""F8: a process that is killed while it promotes leaves a promotion that has happened whole, or not at all."""

import pytest

from models_registry.experiments.promotion import promote_version
from models_registry.versions.services import get_champion
from tools.promotion_kills import PLACES, die_while, find_disagreements

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def kill(settings, by, model, challenger, start):
    settings.MODEL_SERVER_URL = "http://127.0.0.1:9"  # nobody has to load anything
    before = get_champion(model)
    start()

    def at(place):
        def promote():
            promote_version(by=by, version=challenger, reason="it is better")

        return die_while(promote, place), find_disagreements(model, before, challenger), get_champion(model)

    at.before = before
    return at


@pytest.mark.parametrize("place", [place for place in PLACES if place != ("database", "_commit", "after")])
def test_killed_before_its_commit_nothing_has_happened(kill, place):
    assert kill(place) == (True, [], kill.before)


def test_killed_after_its_commit_all_of_it_has_happened(kill, challenger):
    assert kill(("database", "_commit", "after")) == (True, [], challenger)
