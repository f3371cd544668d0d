"""Similar decisions: by the words of their states, among what a bounded look reads."""

import datetime as dt

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.labelling.similar import find_similar
from decisions.labelling.wording import LONGEST_TEXT, Wording, text_of
from decisions.models.tombstones import ERASED_HASH
from tools.factories import AgentFactory, DecisionFactory, uuid7_at

TEXTS = ["a flight to Oslo, a flight!", "Flights to Oslo", "pay the bill", "", "?!", "bill bill BILL a"]


def test_likeness_is_that_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = [Wording(TEXTS).compare(place) for place in range(len(TEXTS))]
    matrix = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+").fit_transform(TEXTS).toarray()
    expected = matrix @ matrix.T
    for wordless in (3, 4):
        expected[wordless, 3:5] = 1.0
    # Here texts without a word share one, which makes no other word rarer.
    assert found == [pytest.approx(row) for row in expected.tolist()]


def test_what_was_said_in_a_chat_counts_once():
    chat = [
        {"role": "system", "content": "You book."},
        {"role": "user", "content": "A flight"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "look", "arguments": '{"at": 1}'}}],
        },
        {"role": "tool", "content": "rain"},
        {"role": "user", "content": [{"type": "text", "text": "To\nOslo"}]},
    ]
    state = {"input": "To Oslo", "messages": chat, "tools": [{"function": {"name": "look"}}], "plan": "pro"}
    said = 'A flight [{"arguments":{"at":1},"name":"look"}] rain To\nOslo'
    assert text_of(state) == f"{said} pro"
    assert text_of(state | {"input": "Bergen"}) == f"{said} Bergen pro"
    assert text_of({"messages": [*chat, {"role": "critic", "content": "No."}]}).startswith("system You book. user")
    long = {"input": "To Oslo", "messages": [{"role": "user", "content": "a " * LONGEST_TEXT}, chat[-1]]}
    assert text_of(long).endswith("To\nOslo") and len(text_of(long)) == LONGEST_TEXT


@pytest.fixture
def state_of(agent):
    """`state_of("words", days=1)`: a decision with this text."""

    def make(text, *, days=0, **fields):
        moment = timezone.now() - dt.timedelta(days=days)
        return DecisionFactory(**{"agent": agent} | fields, state={"text": text}, id=uuid7_at(moment))

    return make


@pytest.mark.django_db
def test_the_most_similar_of_the_same_agent_first(state_of, workspace, api, page_client, labeller):
    asked = state_of("invoice of the dentist in March")
    near, same = state_of("dentist in April"), state_of("the dentist invoice of March")
    state_of("invoice of the dentist in March", agent=AgentFactory(workspace=workspace))
    state_of("invoice of the dentist in March", content_hash=ERASED_HASH)
    state_of("a flight to Oslo")
    found = find_similar(asked)
    assert [pk for pk, _ in found.found] == [same.id, near.id] and found.compared == 3
    assert 0.1 < found.found[1][1] < found.found[0][1] < 1
    answer = api().get(f"decisions/{asked.id}/similar").json()
    assert answer["compared"] == 3
    assert [one["decision"]["id"] for one in answer["results"]] == [str(same.id), str(near.id)]
    client = page_client(labeller)
    page = client.get(reverse("pages:decision-similar", args=["acme", asked.id])).content.decode()
    assert f'value="{near.id}"' in page and page.index(str(same.id)) < page.index(str(near.id))
    bulk = client.get(reverse("pages:label-bulk", args=["acme"]), {"chosen": "1", "id": [str(same.id), str(near.id)]})
    assert "2 chosen decisions" in bulk.content.decode()
    assert (
        f'data-key="f" href="{reverse("pages:decision-similar", args=["acme", asked.id])}"'
        in client.get(reverse("pages:decision", args=["acme", asked.id])).content.decode()
    )


@pytest.mark.django_db
def test_older_ones_are_found_by_their_rare_words_and_by_their_time(state_of, api, monkeypatch):
    for name, value in {"NEWEST": 3, "NEAR": 1, "PIECE": 2, "DEEP": 8}.items():
        monkeypatch.setattr(f"decisions.labelling.similar.{name}", value)
    too_old = state_of("zebra in the zoo", days=30)
    before, asked, after = (state_of(text, days=20 - n) for n, text in enumerate(["in the", "zebra in the zoo", "zoo"]))
    for days in range(17, 12, -1):
        state_of("nothing of it", days=days)
    old = state_of("zebra", days=12)
    newest = [state_of("in the house", days=days) for days in (3, 2, 1)]
    found = dict(find_similar(asked).found)
    assert set(found) == {before.id, after.id, old.id, *(one.id for one in newest)} and too_old.id not in found
    assert found[old.id] > found[newest[0].id]
    erased = state_of("zebra", content_hash=ERASED_HASH)
    assert api().get(f"decisions/{erased.id}/similar").status_code == 410
