"""What the model server holds, queues and lets go, and how it draws a token."""

import math
import signal
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest
import torch

from models_registry.store.local import LocalStore
from tests.training.engine.server_world import COLD, CPU, LONG, PROMPTS, SHORT, Process, item, make_shelf
from tools import model_server
from training.engine.serving.artifacts import ArtifactStore
from training.engine.serving.chat import ChatRequest
from training.engine.serving.faults import Fault
from training.engine.serving.generation import Generation
from training.engine.serving.pool import ModelPool
from training.engine.serving.sampling import NO_TOKEN, Sampling, draw_batch
from training.engine.serving.scoring import Question, score
from training.engine.serving.worker import WAITING_JOBS, ModelThread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers.*"),  # its own deprecations, about itself
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return make_shelf(tmp_path_factory)


def test_a_small_server_lets_go_and_a_restarted_one_starts_afresh(shelf):
    other, _ = shelf.make_base(8)
    first, second = list(shelf.adapters)[:2]
    small = Process(shelf.root, "--max-loaded", "1", "--max-adapters", "1")
    try:
        expected = {model: shelf.expect(model, PROMPTS[0], SHORT) for model in (shelf.base, first, second)}
        for model in (first, second, shelf.base, first, shelf.base):
            assert small.probabilities(item(model))[0] == pytest.approx(expected[model], abs=1e-5)
        mixed = small.probabilities(item(first), item(shelf.base), item(second), item(first), item(other))
        assert mixed[0] == pytest.approx(expected[first], abs=1e-5)
        assert mixed[1] == pytest.approx(expected[shelf.base], abs=1e-5)
        assert mixed[2] == pytest.approx(expected[second], abs=1e-5)
        assert mixed[3] == mixed[0]
        loaded = [model["id"] for model in small.client.get("/v1/models").json()["data"] if model["loaded"]]
        assert loaded == [other]
        with ThreadPoolExecutor(1) as caller:
            talking = caller.submit(small.chat, first, PROMPTS[0], max_tokens=90, temperature=2, seed=1)
            small.score(item(first))
            talking.result()
    finally:
        status, log = small.stop()
    assert status == 0 and "let go of base" in log
    again = Process(shelf.root, program=COLD)  # its SIGTERM must not come later than the answers
    try:
        assert again.client.get("/readyz").json()["loaded"] == 0
        assert again.probabilities(item(first))[0] == pytest.approx(expected[first], abs=1e-5)
        with ThreadPoolExecutor(8) as callers:
            chats = [callers.submit(again.chat, first, PROMPTS[0], max_tokens=100, temperature=2) for _ in range(40)]
            chats[0].result()
            again.process.send_signal(signal.SIGTERM)
            answered = [_status(chat) for chat in chats]
            assert set(answered) <= {200, 503, None} and {503, None} & set(answered)
    finally:
        assert again.stop()[0] == 0


def _status(chat: Future[httpx.Response]) -> int | None:
    """None where the stopping server had no ear any more."""
    try:
        return chat.result().status_code
    except httpx.TransportError:
        return None


def test_a_store_that_is_not_there_is_told_at_the_start(tmp_path):
    command = [*model_server.SERVER, "--artifacts", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "is not a folder" in done.stderr


@pytest.fixture
def pool(shelf):
    return ModelPool(ArtifactStore(LocalStore(shelf.root)), CPU, max_bases=2, max_adapters=2)


def test_the_queue_has_an_end_and_stopping_answers_what_waits(pool, shelf):
    models = ModelThread(pool)
    waiting = [models.submit_load(shelf.base) for _ in range(WAITING_JOBS)]
    with pytest.raises(Fault, match="too many requests"):
        models.submit_load(shelf.base)
    models._stopping = True
    models.start()
    models.stop()
    assert {type(future.exception(timeout=5)) for future in waiting} == {Fault}
    assert waiting[0].exception().code == "shutting_down"
    with pytest.raises(Fault, match="stopping"):
        models.submit_load(shelf.base)


def test_scores_are_answered_between_the_tokens_of_a_chat(shelf, monkeypatch):
    """One that would have to let go of the chat's adapter waits for the chat's end, and holds up those behind it."""
    models = ModelThread(ModelPool(ArtifactStore(LocalStore(shelf.root)), CPU, max_bases=1, max_adapters=1))
    models.start()
    adapter, other = list(shelf.adapters)[:2]
    between, after, answered = [], [], []
    step = Generation.step

    def step_while_scores_arrive(generation):
        if not between:
            between.extend(models.submit_score([Question(adapter, PROMPTS[0], tuple(SHORT), 64)]) for _ in range(3))
            after.append(models.submit_score([Question(other, PROMPTS[0], tuple(SHORT), 64)]))
            after.append(models.submit_chat(chat(shelf.base, 1)).future)
        elif len(generation.rows[0].tokens) > 40:
            answered.extend(score.result(0)[0] for score in between)
            assert not any(one.done() for one in after)
        return step(generation)

    monkeypatch.setattr(Generation, "step", step_while_scores_arrive)
    try:
        models.submit_load(adapter).result(60)
        answer = models.submit_chat(chat(adapter, 100)).future.result(60)
        assert answer.completion_tokens > 50 and len(answered) >= 3
        expected = shelf.expect(adapter, PROMPTS[0], SHORT)
        assert all(got == pytest.approx(expected, abs=1e-5) for got in answered)
        assert after[0].result(60)[0] == pytest.approx(shelf.expect(other, PROMPTS[0], SHORT), abs=1e-5)
        assert after[1].result(60).completion_tokens == 1
    finally:
        models.stop()


def chat(model: str, max_tokens: int) -> ChatRequest:
    """One that ends of itself late."""
    messages = ({"role": "user", "content": "x"},)
    return ChatRequest(model, messages, Sampling(temperature=2.0), max_tokens=max_tokens, seed=3)


def test_more_adapters_than_fit_are_scored_in_parts(pool, shelf):
    models = [*list(shelf.adapters)[:2], shelf.make_adapter(60), shelf.base, shelf.make_adapter(61)]
    answers = score(pool, [Question(model, PROMPTS[3], tuple(LONG), 64) for model in models])
    for model, answer in zip(models, answers, strict=True):
        assert answer == pytest.approx(shelf.expect(model, PROMPTS[3], LONG), abs=1e-5)
    assert len(pool.resident()) == 3


def draw(logits: torch.Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    return int(draw_batch(logits[None], [Sampling(temperature, top_p)], [generator]).token)


def test_nucleus_sampling_keeps_the_fewest_tokens_that_hold_the_mass():
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    drawn = [draw(logits, 1.0, 0.75, generator) for _ in range(2000)]
    assert set(drawn) == {0, 1}
    assert drawn.count(0) / 2000 == pytest.approx(0.625, abs=0.04)
    assert {draw(logits, 1.0, 1.0, generator) for _ in range(500)} == {0, 1, 2, 3}
    assert {draw(logits, 0.0, 1.0, generator), draw(logits, 1.0, 0.4, generator)} == {0}
    for temperature in (0.0, 1.0):
        assert draw(torch.tensor([0.0, float("nan")]), temperature, 0.9, generator) == NO_TOKEN


def test_a_token_is_drawn_as_torch_would():
    logits = torch.randn(300, generator=torch.Generator().manual_seed(1))
    ours, theirs = torch.Generator().manual_seed(2), torch.Generator().manual_seed(2)
    for _ in range(50):
        assert draw(logits, 0.7, 1.0, ours) == torch.multinomial((logits / 0.7).softmax(-1), 1, generator=theirs)


def test_a_draw_tells_its_probability_under_the_model_and_under_the_policy():
    """A row's policy is its own: bias, constraint, temperature and top_p of its neighbours do not touch it."""
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().repeat(5, 1)
    rows = [Sampling(), Sampling(0.5), Sampling(0.0), Sampling(1.0, 0.6), Sampling(1.0, 1.0, ((3, 2.0),))]
    allowed = torch.tensor([[True, True, True, True]] * 4 + [[False, True, False, True]])
    squares = torch.tensor([0.4, 0.3, 0.2, 0.1]) ** 2
    policies = [
        logits[0].exp(),
        squares / squares.sum(),
        torch.tensor([1.0, 0, 0, 0]),
        torch.tensor([0.4, 0.3, 0, 0]) / 0.7,
        torch.tensor([0, 0.3, 0, 0.1]) * torch.tensor([1, 1, 1, math.exp(2)]) / (0.3 + 0.1 * math.exp(2)),
    ]
    generators = [torch.Generator().manual_seed(seed) for seed in range(5)]
    for _ in range(20):
        drawn = draw_batch(logits, rows, generators, allowed)
        for row, (token, policy) in enumerate(zip(drawn.token.tolist(), policies, strict=True)):
            assert float(drawn.log_p[row]) == pytest.approx(float(logits[row, token]), abs=1e-6)
            assert float(drawn.policy_log_p[row]) == pytest.approx(math.log(policy[token]), abs=1e-5)
    nothing = draw_batch(logits[:1], rows[:1], generators[:1], torch.zeros(1, 4, dtype=torch.bool))
    assert int(nothing.token) == NO_TOKEN
