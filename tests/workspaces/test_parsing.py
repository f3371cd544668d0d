"""Bodies: the limits that hold before anything is parsed, on the checked bytes and through the API."""

import datetime as dt
import gzip
import json
import random
import uuid

import pytest
from django.test import RequestFactory
from hypothesis import example, given
from hypothesis import strategies as st

from project.middleware import ContentLengthMiddleware
from tests.api_client import ApiClient
from workspaces.errors import InvalidInput, TooLarge
from workspaces.http.parsing import MAX_BODY, MAX_DEPTH, check_body, inflate, nests_deeper
from workspaces.storage.ids import uuid7, uuid7_bound, uuid7_of, uuid7_time

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4)
    ),
    max_leaves=20,
)


def depth(value):
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


@given(JSON, st.booleans())
def test_what_is_json_within_the_limits_passes(value, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    check_body(body)


@given(JSON, st.integers(0, 6), st.booleans())
@example([[], [[], 1]], 2, False)  # deeper than its longest run of opening brackets
def test_the_look_at_depth_agrees_with_the_value(value, levels, ascii_only):
    body = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()
    assert nests_deeper(body, levels) == (depth(value) > levels)


@given(st.text('[]{}"\\a,:', max_size=30), st.integers(0, 4))
def test_the_look_at_depth_lets_nothing_deep_pass_that_is_json(text, levels):
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return
    assert nests_deeper(text.encode(), levels) == (depth(value) > levels)


@pytest.mark.parametrize(
    "body",
    [
        b'"\x00"',
        rb'"\u0000"',
        rb'"\\\u0000"',
        rb'"\ud800"',
        rb'"\uDFFF"',
        rb'"\udc00\ud800"',
        rb'{"\ud800": 1}',
        rb'"\\\ud800\ude00\ud800"',
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"9223372036854775808",
        b'{"a": [-9223372036854775809]}',
        b"[1" + b"0" * 5000 + b"]",
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_no_client_could_read_back_is_refused(body):
    with pytest.raises(InvalidInput):
        check_body(body)


@pytest.mark.parametrize(
    "body",
    [
        rb'"\\u0000"',
        rb'"\ud83d\ude00"',
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b'"' + b"[" * 100 + b'"',
        b"9223372036854775807",
        b'"12345678901234567890123"',
        b"0.12345678901234567890123",
        b"[1e-12345678901234567890123, 12345678901234567890.5, -9223372036854775808]",
        rb'"\\ud800"',
        b'["1234 5678 9012 3456 7890 1234", 12345678901234, 5678901234567890]',
    ],
    ids=repr,
)
def test_what_only_looks_like_it_passes(body):
    check_body(body)


def test_a_body_over_its_limit_is_too_large():
    check_body(b'"' + b"x" * (MAX_BODY - 2) + b'"')
    with pytest.raises(TooLarge):
        check_body(b'"' + b"x" * (MAX_BODY - 1) + b'"')


class TestGzip:
    def test_what_was_gzipped_comes_out_again(self):
        body = json.dumps(random.Random(0).sample(range(10**6), 1000)).encode()
        assert inflate(gzip.compress(body), limit=MAX_BODY) == body

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            (gzip.compress(b"x" * 10_000), InvalidInput),  # a thousandfold
            (gzip.compress(random.Random(0).randbytes(200)), TooLarge),
            (gzip.compress(b"[1, 2]")[:-4], InvalidInput),
            (gzip.compress(b"[1, 2]") + b"more", InvalidInput),
            (b"[1, 2]", InvalidInput),
            (b"", InvalidInput),
        ],
        ids=["bomb", "large", "cut off", "more", "plain", "empty"],
    )
    def test_what_is_not_one_gzipped_body_within_the_limits_is_refused(self, body, error):
        with pytest.raises(error):
            inflate(body, limit=100 if error is TooLarge else MAX_BODY)


@pytest.mark.django_db
class TestThroughTheApi:
    @pytest.fixture
    def client(self, api, agent):
        return api()

    @pytest.mark.parametrize(
        ("encoding", "status"), [("gzip", 201), ("identity", 201), ("br", 415), ("gzip, gzip", 415)]
    )
    @pytest.mark.quick_cases(2)
    def test_a_body_may_be_gzipped(self, client, encoding, status):
        from decisions.models import Decision
        from tests.decisions.conftest import body

        plain = json.dumps(body()).encode()
        sent = gzip.compress(plain) if encoding == "gzip" else plain
        answer = client.post("decisions", sent, **{"Content-Encoding": encoding})
        assert answer.status_code == status, answer.content
        assert Decision.objects.count() == (status == 201)

    @pytest.mark.parametrize("path", ["decisions", "feedback", "agents", "agents/filer/decide", "runs"])
    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"", 400),
            (b"  ", 400),
            (b"{", 400),
            (b"\xff\xfe", 400),
            (b'{"a": "\xed\xa0\x80"}', 400),
            (b"[" * 5000, 400),
            (b"null", 400),
            (b"1" * 5000, 400),
            (rb'{"a": "\u0000"}', 400),
            (b'{"a": "' + b"x" * 11 * 1024 * 1024 + b'"}', 413),
        ],
        ids=["empty", "spaces", "cut off", "not utf-8", "raw surrogate", "deep", "null", "long number", "nul", "large"],
    )
    def test_a_bad_body_gets_the_envelope(self, client, path, body, status):
        answer = client.request("POST", path, body)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] in {"invalid_input", "too_large"}

    def test_of_duplicate_keys_the_last_wins(self, client):
        body = (
            b'{"agent": "nobody", "agent": "filer", "state": {"text": "a", "text": "b"},'
            b' "action": "x", "action": "travel", "policy_name": "p"}'
        )
        made = client.request("POST", "decisions", body).json()["kept"][0]["id"]
        assert client.get(f"decisions/{made}").json()["state"] == {"text": "b"}

    def test_a_body_without_a_length_is_refused_before_it_reads_as_empty(self):
        request = RequestFactory().post("/api/v1/decisions", headers={"Transfer-Encoding": "chunked"})
        del request.META["CONTENT_LENGTH"]
        answer = ContentLengthMiddleware(lambda request: pytest.fail("reached the view"))(request)
        assert answer.status_code == 411
        assert json.loads(answer.content)["error"]["code"] == "length_required"

    def test_a_form_of_more_than_a_megabyte_is_refused(self, client):
        form = "application/x-www-form-urlencoded"
        answers = [client._client.post("/log-in", b"a=" + b"%41" * count, form) for count in (1000, 400_000)]
        assert [answer.status_code for answer in answers] == [200, 413]

    def test_another_media_type_is_refused(self, client):
        answer = client._client.post(
            "/api/v1/decisions", b"a=1", content_type="text/plain", headers={"Authorization": f"Bearer {client.token}"}
        )
        assert answer.status_code == 415

    def test_a_path_that_is_not_there_gets_the_envelope(self, client):
        for path in ("nothing", "decisions/not-an-id", "agents/../x"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")

    def test_a_method_that_is_not_there_gets_the_envelope(self, client):
        answer = client.request("DELETE", "decisions")
        assert answer.status_code in {403, 405}
        assert answer.json()["error"]["message"]


def test_the_request_s_id_is_taken_when_it_is_tame(db):
    answer = ApiClient(None).get("decisions", **{"X-Request-Id": "abc-1"})
    assert answer.headers["X-Request-Id"] == answer.json()["error"]["request_id"] == "abc-1"
    answer = ApiClient(None).get("decisions", **{"X-Request-Id": "a b<script>"})
    assert answer.headers["X-Request-Id"] != "a b<script>"


def test_ids_are_ordered_and_carry_their_moment():
    made = [uuid7() for _ in range(1000)]
    assert made == sorted(set(made))
    moment = uuid7_time(made[0])
    assert uuid7_bound(moment) <= made[0]
    assert uuid7_time(uuid7_bound(moment)) is None  # a bound is no id


def test_an_id_of_content_is_the_same_twice_and_carries_its_moment():
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
    made = {uuid7_of(moment, f"row {n}".encode()) for n in range(1000)}
    assert len(made) == 1000 and made == {uuid7_of(moment, f"row {n}".encode()) for n in range(1000)}
    assert {(value.version, value.variant) for value in made} == {(7, uuid.RFC_4122)}
    assert {uuid7_time(value) for value in made} == {moment}
