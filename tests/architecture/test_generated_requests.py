"""Requests made up from our own OpenAPI document: whatever a client sends is its fault, never ours; and what the
document allows is not refused for a reason that it could state."""

import json
import re
from collections import Counter

import pytest
from django.db import transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

EACH = 2
# Reasons that no document can state. What the ledger, the registry or the instance holds at this moment:
STATE = (
    r"(does not exist|is unknown|is not (a|an) (member|decision|version|option|label|judge|admin)|not allowed here)",
    r"(is not one of the options|differ from those of|which is not in the state|are the same|is the chosen action)",
    r"(does not take options with each decision|neither chats nor|is not recorded yet|was recorded|was erased)",
    r"(is already|has no|is no|no such|is not set|takes no|is required with a key|is not hosted|episodes given)",
    r"(already|not found|exists|is missing .*If-Match|differs from expected|cannot)",
)
# what a header says in its stead, what depends on the moment, what is checked of the whole body before it is parsed,
# whole numbers written as 1.0, YAML, and the content of files and of expressions.
OTHER = (
    r"(its time .* is out of range|within the next ten years|has more than|nested deeper)",
    r"(does not fit into 64 bits|NUL|[Nn]ull char|surrogate|got `float`|Multipart|YAML|yaml|control characters)",
    r"(ends in|line \d+|template|expression|column \d+|invalid non-printable|schema)",
)
NOT_STATED = re.compile("|".join((*STATE, *OTHER)))


@pytest.mark.django_db
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:schemathesis.*")
@pytest.mark.filterwarnings("ignore::Warning:hypothesis.*")
def test_no_generated_request_is_a_server_error_and_every_status_is_stated(api, agent, store):
    from tools.generated import is_fault, make_known, send_generated  # schemathesis: seconds of imports

    document = SchemaGenerator().get_schema(request=None, public=True)
    token = api().token
    client = Client(raise_request_exception=False)
    statuses, failed, unstated = Counter(), [], []

    def send(request, stated):
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        headers["Authorization"] = f"Bearer {token}"
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        answer = client.generic(
            request.method,
            request.path_url,
            body,
            content_type=headers.pop("Content-Type", "application/json"),
            headers=headers,
        )
        statuses[answer.status_code] += 1
        told = (request.method, request.path_url, body[:300], answer.status_code)
        if is_fault(request, answer.status_code):
            failed.append((*told, answer.content[:300]))
        elif answer.status_code not in stated:
            unstated.append(told)

    sent = send_generated(document, send, each=EACH, known=make_known(agent))
    assert not failed, failed[:3]
    assert not unstated, unstated[:3]
    assert sent == sum(statuses.values()) > 200
    # Some came through, and some were refused for what they sent: both kinds were tried.
    assert min(statuses[200], statuses[201], statuses[400], statuses[404]) > 10, statuses


@pytest.mark.django_db
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning:schemathesis.*")
@pytest.mark.filterwarnings("ignore::Warning:hypothesis.*")
def test_what_the_document_allows_is_refused_only_for_what_it_cannot_state(api, agent, store):
    from tools.generated import make_known, send_allowed  # schemathesis: seconds of imports

    document = SchemaGenerator().get_schema(request=None, public=True)
    token = api().token
    client = Client(raise_request_exception=False)
    refused, statuses = Counter(), Counter()

    def send(request, operation):
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        headers["Authorization"] = f"Bearer {token}"
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        media = headers.pop("Content-Type", "application/json")
        point = transaction.savepoint()
        answer = client.generic(request.method, request.path_url, body, content_type=media, headers=headers)
        transaction.savepoint_rollback(point)
        statuses[answer.status_code] += 1
        if answer.status_code in {207, 400, 422} and answer["Content-Type"].startswith("application/json"):
            told = json.loads(answer.content)
            faults = told["error"]["fields"] if "error" in told else [f for e in told["errors"] for f in e["fields"]]
            faults = faults or [{"field": "", "reason": told["error"]["message"], "expected": ""}]
            refused.update(
                (operation, fault["field"], fault["reason"])
                for fault in faults
                if not NOT_STATED.search(f"{fault['reason']} {fault['expected']}")
            )

    sent = send_allowed(document, send, each=4, known=make_known(agent))
    assert not refused, "\n".join(map(str, sorted(refused)[:40]))
    assert sent == sum(statuses.values()) > 300
    assert statuses[200] + statuses[201] + statuses[202] > sent / 4, statuses
