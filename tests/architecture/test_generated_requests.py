"""Requests made up from our own OpenAPI document: whatever a client sends is its fault, never ours."""

from collections import Counter

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

EACH = 2


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
