"""Labels in bulk: the exact count first, one verdict for all that match, and one undo that takes all of it back."""

import datetime as dt
import re
from uuid import UUID

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.labelling import bulk as service
from decisions.models import BulkLabel, Decision, Feedback, Label, Skip
from decisions.models.verdicts import find_verdict
from jobs.models import Job
from jobs.runner import run_job
from jobs.services import request_cancel
from tools.factories import DecisionFactory, FeedbackFactory, LabelFactory, MembershipFactory, SkipFactory
from workspaces.models import AuditEntry
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
ALL = {"filters": {"agent": "filer"}, "verdict": "confirmed"}


@pytest.fixture
def made(agent):
    """Six decisions that chose travel; the first has a person's label, the second an app's verdict."""
    made = [DecisionFactory(agent=agent, action="travel", state={"text": f"trip {n}"}) for n in range(6)]
    made.sort(key=lambda one: one.id)
    LabelFactory(decision=made[0], verdict="ignored")
    FeedbackFactory(decision=made[1], value="corrected", source="code")
    return made


def count(client, **fields):
    answer = client.post("bulk-labels", ALL | fields | {"dry_run": True})
    assert answer.status_code == 200, answer.content
    return answer.json()


def give(client, **fields):
    body = ALL | fields
    return client.post("bulk-labels", body | {"asked": body.get("asked") or count(client, **fields)["asked"]})


def verdicts(decisions):
    return [getattr(find_verdict(Decision.objects.get(id=one.id)), "value", None) for one in decisions]


def everything():
    return Label.objects.count(), Feedback.objects.count(), BulkLabel.objects.count(), AuditEntry.objects.count()


def test_a_filter_is_counted_labelled_and_taken_back(api, labeller, made, agent):
    SkipFactory(decision=made[3], reviewer=labeller)
    DecisionFactory(agent__workspace=agent.workspace)
    ann, before = api.person(labeller), everything()
    counted = count(ann)
    assert (counted["asked"]["matching"], counted["asked"]["labelled"], counted["to_label"]) == (6, 1, 5)
    assert (counted["unfit"], counted["too_many"], counted["older"]) == (0, False, None)
    assert everything() == before
    later = DecisionFactory(agent=agent)  # not meant: it came after the count
    answer = give(ann, asked=counted["asked"])
    assert answer.status_code == 202, answer.content
    done = answer.json()
    assert {name: done[name] for name in ("state", "matching", "chosen", "done", "labelled", "labelled_by")} == {
        "state": "done", "matching": 6, "chosen": 5, "done": 5, "labelled": 5, "labelled_by": "Labeller",
    }  # fmt: skip
    assert verdicts(made) == ["ignored", *["confirmed"] * 5] and verdicts([later]) == [None]
    assert set(Label.objects.filter(bulk=done["id"]).values_list("reviewer", "verdict")) == {(labeller.pk, "confirmed")}
    [label] = api().get(f"decisions/{made[2].id}").json()["labels"]
    assert (label["labelled_by"], label["bulk"]) == ("Labeller", done["id"])
    assert not Skip.objects.exists()
    entry = AuditEntry.objects.get(action="labels.given_in_bulk")
    assert (entry.target, entry.details["decisions"]) == (f"bulk_label:{done['id']}", 5)
    undone = ann.post(f"bulk-labels/{done['id']}/undo").json()
    assert undone["state"] == "undone" and verdicts(made) == ["ignored", "corrected", None, None, None, None]
    assert not Label.objects.filter(bulk__isnull=False).exists()
    assert AuditEntry.objects.get(action="labels.bulk_undone").details == {"labels": 5}
    assert ann.post(f"bulk-labels/{done['id']}/undo").status_code == 409
    assert give(ann).json()["labelled"] == 6  # again, with the one that came later


def test_people_s_labels_are_replaced_only_where_asked_and_come_back(api, labeller, made):
    ann = api.person(labeller)
    answer = give(ann, replaces=True, verdict="corrected", corrected_action="health").json()
    assert answer["labelled"] == 6 and verdicts(made) == ["corrected"] * 6
    assert Label.objects.filter(bulk=answer["id"], corrected_action="health").count() == 6
    ann.post(f"bulk-labels/{answer['id']}/undo")
    assert verdicts(made)[:2] == ["ignored", "corrected"]


def test_a_correction_reaches_only_decisions_that_it_fits(api, labeller, made, agent):
    DecisionFactory(agent=agent, action="health")
    DecisionFactory(agent=agent, action="travel", options=["travel", "finance"])
    ann = api.person(labeller)
    fields = {"verdict": "corrected", "corrected_action": "health"}
    counted = count(ann, **fields)
    assert (counted["asked"]["matching"], counted["unfit"], counted["to_label"]) == (8, 2, 5)
    assert give(ann, **fields).json()["labelled"] == 5
    refused = count(ann, verdict="corrected", corrected_action="nowhere")
    assert refused["to_label"] == 0 and give(ann, verdict="corrected", corrected_action="nowhere").status_code == 400


def test_what_was_not_shown_is_not_labelled(api, labeller, made, agent):
    ann = api.person(labeller)
    asked, unjudged = count(ann)["asked"], count(ann, filters={"verdict": "no_verdict"})["asked"]
    old = DecisionFactory(agent=agent, id=UUID(int=made[0].id.int - 1))  # arrives with an old id
    LabelFactory(decision=made[5])
    before = everything()
    for fields, says in (
        ({"asked": asked}, "6 decisions matched when the count was shown, and 7 match now"),
        ({"asked": asked | {"matching": 7}, "replaces": True}, "1 of the decisions had a person's label"),
        ({"asked": unjudged}, "The filter differs"),
        ({"asked": asked | {"before": str(old.id)}}, "The filter differs"),
    ):
        refused = give(ann, **fields)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "count_changed")
        assert says in refused.json()["error"]["message"]
    for fields, field in (
        ({"verdict": "splendid"}, "verdict"),
        ({"corrected_action": "health"}, "corrected_action"),
        ({"filters": {"colour": "red"}}, "filters"),
        ({"filters": {"since": "ever"}}, "filters.since"),
        ({"decisions": [str(old.id)]}, "filters"),
        ({"asked": None}, "asked"),
    ):
        refused = ann.post("bulk-labels", ALL | {"asked": asked} | fields)
        assert refused.status_code == 400, fields
        assert {fault["field"].partition("[")[0] for fault in refused.json()["error"]["fields"]} == {field}
    assert everything() == before
    # Fewer than were shown are labelled: somebody labelled one meanwhile.
    assert give(ann, filters={"verdict": "no_verdict"}, asked=unjudged | {"matching": 9}).json()["labelled"] == 4


def test_more_than_the_most_are_refused_and_pieces_of_the_ledger_follow_each_other(api, labeller, made, monkeypatch):
    ann = api.person(labeller)
    monkeypatch.setattr("decisions.labelling.matching.WALKED", 4)
    counted = count(ann)
    assert (counted["asked"]["matching"], counted["older"]) == (4, str(made[2].id))
    rest = count(ann, before=counted["older"])
    assert (rest["asked"]["matching"], rest["asked"]["labelled"], rest["older"]) == (2, 1, None)
    assert give(ann, asked=rest["asked"]).json()["labelled"] == 1
    for module in ("matching", "bulk"):
        monkeypatch.setattr(f"decisions.labelling.{module}.MOST_IN_BULK", 3)
    before, counted = everything(), count(ann)
    assert (counted["too_many"], counted["asked"], counted["to_label"]) == (True, None, 0)
    refused = give(ann, asked=rest["asked"] | {"before": None})
    assert refused.status_code == 400 and "more than 3" in refused.content.decode()
    assert everything() == before


def test_chosen_decisions_are_labelled_by_their_ids(api, made, other_workspace):
    theirs = DecisionFactory(agent__workspace=other_workspace)
    key, ids = api("feedback:write"), [str(one.id) for one in made[:3]]
    body = {"decisions": [str(theirs.id), str(uuid7())], "verdict": "confirmed", "dry_run": True}
    refused = key.post("bulk-labels", body)
    fields = [fault["field"] for fault in refused.json()["error"]["fields"]]
    assert (refused.status_code, fields) == (400, ["decisions[0]", "decisions[1]"])
    assert key.post("bulk-labels", body | {"decisions": ids}).json()["errors"] == []
    ids.insert(1, str(theirs.id))  # which leaves the others
    counted = key.post("bulk-labels", body | {"decisions": ids}).json()
    given = {"decisions": ids, "verdict": "confirmed", "asked": counted["asked"]}
    done = key.post("bulk-labels", given).json()
    for one in (counted, done):
        [error] = one["errors"]
        assert (error["index"], error["code"], error["fields"][0]["field"]) == (1, "not_found", "decisions[1]")
    assert done["labelled"] == 2 and done["labelled_by"].startswith("key:") and done["filters"] == {}
    assert verdicts([theirs]) == [None]
    assert api.of(other_workspace, "admin").get(f"bulk-labels/{done['id']}").status_code == 404


@pytest.fixture
def large(api, labeller, made, monkeypatch):
    """The five of `made` by a job in chunks of two."""
    monkeypatch.setattr(service, "AT_ONCE", 1)
    monkeypatch.setattr(service, "CHUNK", 2)
    answer = give(api.person(labeller)).json()
    assert (answer["state"], answer["labelled"]) == ("queued", 0)
    return BulkLabel.objects.get(id=answer["id"])


def test_a_job_labels_many_and_another_takes_them_back(api, labeller, large, made):
    ann = api.person(labeller)
    assert ann.post(f"bulk-labels/{large.id}/undo").status_code == 409  # still under way
    LabelFactory(decision=made[4], verdict="corrected")  # by somebody else, since it was asked for
    assert run_job(large.job_id) == "succeeded"
    large.refresh_from_db()
    assert (large.state, large.done, large.labelled, large.decisions) == ("done", 5, 4, [])
    assert verdicts(made) == ["ignored", "confirmed", "confirmed", "confirmed", "corrected", "confirmed"]
    assert ann.post(f"bulk-labels/{large.id}/undo").json()["state"] == "queued"
    large.refresh_from_db()
    assert run_job(large.job_id) == "succeeded"
    large.refresh_from_db()
    assert large.state == "undone" and verdicts(made)[2:] == [None, None, "corrected", None]


def test_a_cancelled_job_leaves_what_it_labelled_and_a_crashed_one_goes_on(api, labeller, large, made, monkeypatch):
    real, calls = service._label_next, []

    def label_next(bulk):
        calls.append(bulk.done)
        if len(calls) == 2:
            request_cancel(job_id=large.job_id)
        if len(calls) == 1:
            real(bulk)
            raise RuntimeError("the worker's machine is gone")
        return real(bulk)

    monkeypatch.setitem(service._WORK, service.LABEL_IN_BULK, label_next)
    assert run_job(large.job_id) == "queued" and not Label.objects.filter(bulk=large).exists()
    Job.objects.update(run_after=timezone.now() - dt.timedelta(seconds=1))
    assert run_job(large.job_id) == "cancelled"
    large.refresh_from_db()
    assert (large.state, large.done, large.labelled, calls) == ("stopped", 2, 2, [0, 0])
    assert Label.objects.filter(bulk=large).count() == 2
    ann = api.person(labeller)
    assert ann.post(f"bulk-labels/{large.id}/cancel").status_code == 409
    ann.post(f"bulk-labels/{large.id}/undo")
    run_job(BulkLabel.objects.get().job_id)
    assert not Label.objects.filter(bulk=large).exists() and verdicts(made)[0] == "ignored"


def test_only_its_reviewer_and_admins_take_it_back(api, admin, workspace, labeller, large):
    ben = api.person(MembershipFactory(workspace=workspace, role="labeller").user)
    assert ben.post(f"bulk-labels/{large.id}/cancel").status_code == 403
    run_job(large.job_id)
    assert ben.post(f"bulk-labels/{large.id}/undo").status_code == 403
    assert Label.objects.filter(bulk=large).count() == 5
    api.person(admin).post(f"bulk-labels/{large.id}/undo")
    run_job(BulkLabel.objects.get().job_id)
    assert not Label.objects.filter(bulk=large).exists()


def test_the_page_asks_with_the_count_and_again_where_it_grew(page_client, labeller, viewer, made, agent):
    client, path = page_client(labeller), reverse("pages:label-bulk", args=["acme"])
    listed = client.get(reverse("pages:decisions", args=["acme"]), {"agent": "filer"}).content.decode()
    assert f'href="{path}?agent=filer"' in listed
    page = client.get(path, {"agent": "filer", "q": "trip"}).content.decode()
    assert "6 decisions match" in page and "already has a person’s label" in page
    form = dict(re.findall(r'<input type="hidden" name="(query|matching|labelled|digest)" value="([^"]*)"', page))
    form = {name: value.replace("&amp;", "&") for name, value in form.items()} | {"verdict": "confirmed"}
    DecisionFactory(agent=agent, state={"text": "trip"}, id=UUID(int=made[0].id.int - 1))
    before = everything()
    grown = client.post(path, form)
    assert grown.status_code == 409 and "7 decisions match<" in grown.content.decode() and everything() == before
    assert "7 match now" in grown.content.decode()
    wrong = client.post(path, form | {"matching": "7", "right": "health"})
    assert wrong.status_code == 400 and "only with corrected or overridden" in wrong.content.decode()
    assert everything() == before
    done = client.post(path, form | {"matching": "7"})
    bulk = BulkLabel.objects.get()
    assert done["Location"] == reverse("pages:label-bulk-detail", args=["acme", bulk.id])
    assert (bulk.labelled, bulk.filters) == (6, {"agent": "filer"})  # words may name a person
    assert "Undo all 6 labels" in client.get(done["Location"]).content.decode()
    assert "Undo all" not in page_client(viewer).get(done["Location"]).content.decode()
    shown = client.get(reverse("pages:decision", args=["acme", made[2].id])).content.decode()
    assert f'<a href="{done["Location"]}">in bulk</a>' in shown
    assert client.post(reverse("pages:label-bulk-undo", args=["acme", bulk.id])).status_code == 302
    assert not Label.objects.filter(bulk=bulk).exists()
    assert client.get(path, {"chosen": "1"}).status_code == 400
