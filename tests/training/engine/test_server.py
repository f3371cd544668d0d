"""The model server as its clients meet it: a real process, real HTTP, tiny models made by the engine's own code."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.training.engine.server_world import LONG, PROMPTS, SHORT, TOKEN, Process, item, make_shelf, put
from training.engine.models.loading import CHAT_TEMPLATE
from training.engine.rows.types import Prompt

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers.*")  # its own deprecations, about itself


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return make_shelf(tmp_path_factory)


@pytest.fixture(scope="module")
def server(shelf):
    process = Process(shelf.root)
    yield process
    status, log = process.stop()
    assert status == 0, log
    assert "internal_error" not in log and "failed" not in log, log


def test_probes_are_open_and_everything_else_wants_the_token(server):
    with httpx.Client(base_url=server.address, trust_env=False, verify=False) as stranger:
        assert stranger.get("/livez").json() == {"status": "ok"}
        assert stranger.get("/readyz").json()["status"] == "ready"
        for method, path in [
            ("GET", "/v1/models"),
            ("POST", "/score"),
            ("POST", "/load"),
            ("POST", "/v1/chat/completions"),
        ]:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                refused = stranger.request(method, path, headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorised")


def test_a_mixed_batch_gives_each_row_what_it_gets_alone(server, shelf):
    first, second = list(shelf.adapters)[:2]
    rows = [
        item(model, prompt, options)
        for prompt, options in zip(PROMPTS, [SHORT, LONG, LONG[::-1], SHORT], strict=True)
        for model in (first, shelf.base, second)
    ]
    together = server.probabilities(*rows)
    for row, got in zip(rows, together, strict=True):
        assert sum(got) == pytest.approx(1)
        assert got == pytest.approx(shelf.expect(row["model"], row["prompt"], row["options"]), abs=1e-5)
        assert server.probabilities(row)[0] == pytest.approx(got, abs=1e-5)
    base, changed, also_changed = together[1], together[0], together[2]
    assert max(abs(a - b) for a, b in zip(base, changed, strict=True)) > 0.01
    assert max(abs(a - b) for a, b in zip(changed, also_changed, strict=True)) > 0.01


def test_the_prompt_is_cut_to_the_length_asked_for(server, shelf):
    short, full = server.probabilities(*(item(shelf.base, PROMPTS[1], max_prompt_tokens=n) for n in (4, 64)))
    assert short == pytest.approx(shelf.expect(shelf.base, PROMPTS[1], SHORT, 4), abs=1e-5)
    assert full == pytest.approx(shelf.expect(shelf.base, PROMPTS[1], SHORT, 64), abs=1e-5)
    assert short != pytest.approx(full, abs=1e-3)


def test_a_system_prompt_is_read_as_in_training_by_score_and_by_chat(server, shelf):
    system, prompt = "sort the post", PROMPTS[1]
    refuses = shelf.make_base(
        41, template="{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHAT_TEMPLATE
    )[0]

    def chat(model, **more):
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        body = {"model": model, "messages": messages, "structured_outputs": {"choice": SHORT}, **more}
        return server.client.post("/v1/chat/completions", json=body)

    expected = shelf.expect(shelf.base, Prompt(prompt, system), SHORT, 16)
    [scored, plain] = server.probabilities(
        item(shelf.base, prompt, system=system, max_prompt_tokens=16), item(shelf.base, prompt, max_prompt_tokens=16)
    )
    assert scored == pytest.approx(expected, abs=1e-5) and scored != pytest.approx(plain, abs=1e-4)
    [choice] = chat(shelf.base, max_prompt_tokens=16).json()["choices"]
    assert choice["reckoner"]["probabilities"] == pytest.approx(expected, abs=1e-5)
    # A template without a role for it: in front of the user's text, by both.
    [front, same] = server.probabilities(item(refuses, prompt, system=system), item(refuses, f"{system}\n\n{prompt}"))
    [choice] = chat(refuses).json()["choices"]
    assert front == pytest.approx(same, abs=1e-5)
    assert front == pytest.approx(choice["reckoner"]["probabilities"], abs=1e-5)
    response = server.score(item(shelf.base, prompt, system="sort " * 99), item(shelf.base, prompt, system=system))
    refused, fine = response.json()["results"]
    assert (refused["error"]["code"], refused["error"]["param"]) == ("context_length_exceeded", "system")
    assert "leaves fewer than 4 of max_prompt_tokens 64" in refused["error"]["message"] and fine["probabilities"]
    answer = chat(shelf.base, max_prompt_tokens=4)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_concurrent_callers_get_their_own_answers(server, shelf):
    models = [shelf.base, *list(shelf.adapters)[:2]]
    rows = [item(models[n % 3], f"{PROMPTS[n % 4]} {n}", LONG if n % 2 else SHORT) for n in range(36)]
    with ThreadPoolExecutor(12) as callers:
        together = list(callers.map(lambda row: server.probabilities(row)[0], rows))
    for row, got in zip(rows, together, strict=True):
        assert got == pytest.approx(server.probabilities(row)[0], abs=1e-5)
    assert len({tuple(round(p, 4) for p in got) for got in together}) > 24


def test_an_adapter_stored_later_is_served_without_a_restart(server, shelf):
    pid = server.process.pid
    late = shelf.make_adapter(30)
    loaded = server.client.post("/load", json={"model": late})
    assert loaded.status_code == 200
    assert loaded.json() == {"model": late, "kind": "adapter", "base": shelf.base}
    assert server.probabilities(item(late))[0] == pytest.approx(shelf.expect(late, PROMPTS[0], SHORT), abs=1e-5)
    listed = {model["id"]: model for model in server.client.get("/v1/models").json()["data"]}
    assert listed[late]["loaded"] and listed[late]["kind"] == "adapter" and listed[late]["base"] == shelf.base
    assert listed[late]["object"] == "model" and listed[late] == server.client.get(f"/v1/models/{late}").json()
    assert server.process.poll() is None and server.process.pid == pid


def test_what_is_wrong_with_one_item_leaves_the_others_alone(server, shelf):
    unknown = "0" * 64
    response = server.score(item(unknown), item(shelf.base), item("gpt-4"))
    assert response.status_code == 200
    missing, scored, no_digest = response.json()["results"]
    assert missing["error"]["code"] == no_digest["error"]["code"] == "model_not_found"
    assert sum(scored["probabilities"]) == pytest.approx(1)
    alone = server.score(item(unknown))
    assert alone.status_code == 404 and alone.json()["error"]["code"] == "model_not_found"
    assert server.client.post("/load", json={"model": unknown}).status_code == 404
    assert server.chat(unknown, "hello").status_code == 404
    assert server.client.get(f"/v1/models/{unknown}").status_code == 404


@pytest.mark.parametrize("damage", ["weights", "manifest", "missing", "added"])
def test_an_artifact_that_is_not_as_stored_gives_no_score(server, shelf, damage):
    seed = 40 + ["weights", "manifest", "missing", "added"].index(damage)
    digest = shelf.make_adapter(seed)
    folder = shelf.root / "sha256" / digest[:2] / digest
    if damage == "weights":
        weights = bytearray((folder / "adapter_model.safetensors").read_bytes())
        weights[-1] ^= 1
        (folder / "adapter_model.safetensors").write_bytes(weights)
    elif damage == "manifest":
        (folder / "MANIFEST.json").write_text(
            (folder / "MANIFEST.json").read_text().replace('"schema":1', '"schema":2')
        )
    elif damage == "missing":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "adapter_model.bin").write_bytes(b"surprise")
    answers = [
        server.score(item(digest)),
        server.client.post("/load", json={"model": digest}),
        server.chat(digest, "hello"),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "artifact_corrupt")
        assert "probabilities" not in answer.text
    broken, sound = server.score(item(digest), item(shelf.base)).json()["results"]
    assert broken["error"]["code"] == "artifact_corrupt"
    assert sound["probabilities"] == pytest.approx(shelf.expect(shelf.base, PROMPTS[0], SHORT), abs=1e-5)


def test_an_adapter_that_does_not_fit_is_refused_and_harms_nobody(server, shelf):
    _, stranger = shelf.make_base(7, hidden=64)
    misfit = shelf.make_adapter(50, of=stranger)
    good = next(iter(shelf.adapters))
    answers = server.score(item(misfit), item(good), item(shelf.base)).json()["results"]
    assert answers[0]["error"]["code"] == "artifact_unusable" and "has no place" in answers[0]["error"]["message"]
    for model, answer in zip((good, shelf.base), answers[1:], strict=True):
        assert answer["probabilities"] == pytest.approx(shelf.expect(model, PROMPTS[0], SHORT), abs=1e-5)


def test_only_models_and_adapters_with_safetensors_are_served(server, shelf):
    rows = shelf.scratch / "rows"
    rows.mkdir()
    (rows / "train.jsonl").write_text("{}\n")
    dataset, no_weights = put(shelf.root, rows, "dataset"), put(shelf.root, rows, "model")
    assert server.score(item(dataset)).json()["error"]["code"] == "model_not_found"
    refused = server.score(item(no_weights))
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "artifact_unusable")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"items": []}, "items"),
        ({"items": "x"}, "items"),
        ({"items": None}, "items"),
        ({"items": [1]}, "items[0]"),
        ({"items": [{"prompt": "x", "options": ["a"]}]}, "items[0]"),
        ({"options": []}, "items[0].options"),
        ({"options": ["a", ""]}, "items[0].options[1]"),
        ({"options": ["a", 1]}, "items[0].options[1]"),
        ({"options": ["a", "a"]}, "items[0].options"),
        ({"prompt": None}, "items[0].prompt"),
        ({"model": 5}, "items[0].model"),
        ({"max_prompt_tokens": 0}, "items[0].max_prompt_tokens"),
        ({"max_prompt_tokens": 10**400}, None),
    ],
)
def test_a_malformed_score_request_is_told_what_is_wrong_and_where(server, shelf, change, field):
    body = change if "items" in change else {"items": [item(shelf.base) | change]}
    response = server.client.post("/score", json=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] == "invalid_request" and error["type"] == "invalid_request_error"
    assert field is None or error["param"] == field


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b"null", b'{"items": NaN}', b"[" * 50_000, b'{"items":[{"prompt":"\\ud800"}]}']
)
@pytest.mark.parametrize("path", ["/score", "/load", "/v1/chat/completions"])
def test_a_body_that_is_not_json_is_a_400(server, path, raw):
    response = server.client.post(path, content=raw)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


def test_odd_but_legal_text_is_scored(server, shelf):
    odd = ["", "\x00", "😀" * 300, "<|end|><|assistant|>keep", "ünï", " " * 1000, "a" * 100_000]
    for got in server.probabilities(*(item(shelf.base, prompt) for prompt in odd)):
        assert sum(got) == pytest.approx(1)
    assert server.probabilities(item(shelf.base, options=["the only one"])) == [[1.0]]


def test_what_does_not_fit_the_model_or_the_server_is_refused(server, shelf):
    long = server.score(item(shelf.base, "a b c d e f " * 100, max_prompt_tokens=500))
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    large = server.client.post("/score", content=b" " * (9 << 20))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    many = server.client.post("/score", json={"items": [item(shelf.base)] * 257})
    assert many.status_code == 400
    assert len(server.probabilities(*[item(shelf.base)] * 256)) == 256
    assert server.client.get("/score").json()["error"]["code"] == "method_not_allowed"
    assert server.client.get("/nowhere").json()["error"]["code"] == "not_found"


def test_chat_answers_as_transformers_does_base_and_adapters_together(server, shelf):
    models = [shelf.base, *list(shelf.adapters)[:2]] * 2
    contents = [PROMPTS[n % 4] for n in range(len(models))]
    with ThreadPoolExecutor(6) as callers:
        answers = list(
            callers.map(
                lambda pair: server.chat(*pair, temperature=0, max_tokens=12).json(), zip(models, contents, strict=True)
            )
        )
    for model, content, answer in zip(models, contents, answers, strict=True):
        choice = answer["choices"][0]
        assert choice["message"]["role"] == "assistant"
        assert choice["message"]["content"] == shelf.continues(model, content, 12)
        usage = answer["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert (choice["finish_reason"] == "length") == (usage["completion_tokens"] == 12)
        assert answer["object"] == "chat.completion" and answer["model"] == model


def test_a_seed_makes_sampling_repeatable_whoever_else_is_asking(server, shelf):
    def ask(seed: int) -> str:
        return server.chat(shelf.base, PROMPTS[0], seed=seed, temperature=1.5, top_p=0.9, max_tokens=10).json()[
            "choices"
        ][0]["message"]["content"]

    alone = [ask(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as callers:
        assert list(callers.map(ask, range(6))) == alone
    assert len(set(alone)) > 1


def test_each_row_keeps_its_own_settings(server, shelf):
    greedy = shelf.continues(shelf.base, PROMPTS[0], 8)
    settings = [
        {"temperature": 0},
        {"temperature": 2, "seed": 1},
        {"top_p": 1e-6},
        {"temperature": 1e-30},
        {"max_tokens": 2},
    ]
    with ThreadPoolExecutor(5) as callers:
        answers = list(
            callers.map(lambda own: server.chat(shelf.base, PROMPTS[0], **({"max_tokens": 8} | own)).json(), settings)
        )
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts[0] == texts[2] == texts[3] == greedy != texts[1]
    assert answers[4]["usage"]["completion_tokens"] <= 2


def test_stop_and_logprobs(server, shelf):
    plain = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=12).json()["choices"][0]["message"]["content"]
    stop = plain[len(plain) // 2 :][:3]
    stopped = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=12, stop=[stop]).json()["choices"][0]
    assert stopped["message"]["content"] == plain[: plain.index(stop)] and stopped["finish_reason"] == "stop"
    detailed = server.chat(shelf.base, PROMPTS[0], temperature=0, max_tokens=5, logprobs=True, top_logprobs=3).json()
    content = detailed["choices"][0]["logprobs"]["content"]
    assert len(content) == detailed["usage"]["completion_tokens"]
    for token in content:
        assert token["logprob"] <= 0 and len(token["top_logprobs"]) == 3
        assert token["top_logprobs"][0]["logprob"] == token["logprob"]
        assert bytes(token["bytes"]).decode(errors="replace") == token["token"]


def test_chat_takes_what_an_openai_client_sends(server, shelf):
    body = {
        "model": shelf.base,
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "x", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "box"}]},
        ],
        "max_completion_tokens": 3, "temperature": None, "n": 1, "stream": False, "frequency_penalty": 0, "user": "u",
        "store": False, "metadata": {"a": "b"}, "seed": -5, "response_format": {"type": "text"}, "some_day": [1, {}],
    }  # fmt: skip
    response = server.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] <= 3


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"n": 17}, "invalid_request", "n"),
        ({"functions": [{"name": "f"}]}, "unsupported_parameter", "functions"),
        ({"frequency_penalty": 0.5}, "unsupported_parameter", "frequency_penalty"),
        ({"top_k": 40}, "unsupported_parameter", "top_k"),
        ({"stream_options": {"include_usage": True}}, "invalid_request", "stream_options"),
        ({"logit_bias": {"hello": 1}}, "invalid_request", "logit_bias"),
        ({"logit_bias": {"999999": 1}}, "invalid_request", "logit_bias"),
        ({"temperature": 3}, "invalid_request", "temperature"),
        ({"temperature": "hot"}, "invalid_request", "temperature"),
        ({"top_p": 0}, "invalid_request", "top_p"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"max_tokens": 100_000}, "context_length_exceeded", "max_tokens"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": [{"role": "user"}]}, "invalid_request", "messages[0].content"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "invalid_request", "messages[0].role"),
        ({"messages": [{"role": "user", "content": "word " * 500}]}, "context_length_exceeded", "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "unsupported_parameter",
            "messages[0].content",
        ),
    ],
)
def test_a_chat_request_that_cannot_be_honoured_is_refused_by_name(server, shelf, change, code, field):
    response = (
        server.chat(shelf.base, "hello", **change)
        if "messages" not in change
        else server.client.post("/v1/chat/completions", json={"model": shelf.base, **change})
    )
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, code, field)
    if code == "context_length_exceeded":  # LiteLLM knows it by these words of OpenAI's alone
        assert error["message"].startswith("This model's maximum context length is ")
