"""Chats that join and leave a generation between two tokens, asked of the model thread itself."""

import threading
from concurrent.futures import Future

import pytest
import torch
from families import FAMILIES, make_model

from models_registry.store.local import LocalStore
from tests.training.engine.server_world import CPU, PROMPTS, make_shelf, put
from training.engine.models.loading import Loaded, load_tokenizer, save
from training.engine.serving.artifacts import ArtifactStore
from training.engine.serving.chat import Begun, ChatRequest, Piece
from training.engine.serving.faults import Fault
from training.engine.serving.generation import Generation
from training.engine.serving.pool import ModelPool
from training.engine.serving.sampling import Sampling
from training.engine.serving.worker import ModelThread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers.*"),  # its own deprecations, about itself
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return make_shelf(tmp_path_factory)


@pytest.fixture
def models(shelf):
    thread = ModelThread(ModelPool(ArtifactStore(LocalStore(shelf.root)), CPU, max_bases=2, max_adapters=2))
    thread.start()
    yield thread
    thread.stop()
    assert thread.pool.pinned == frozenset()


ENDLESS = ((1, -100.0),)
"""A bias against the end of sequence."""


def ask(model: str, prompt: str = PROMPTS[0], tokens: int = 40, **more) -> ChatRequest:
    """Greedy unless it says otherwise."""
    more.setdefault("sampling", Sampling(temperature=0.0))
    return ChatRequest(model, ({"role": "user", "content": prompt},), max_tokens=tokens, **more)


class Steps:
    """Lets the model thread make one step at a time, and tells how many tokens each growing answer has."""

    def __init__(self, monkeypatch) -> None:
        self.at: dict[int, list] = {}
        self.lengths: list[list[int]] = []
        step = Generation.step

        def counted(generation):
            self.lengths.append([len(row.tokens) for row in generation.rows])
            for act in self.at.pop(len(self.lengths), ()):
                act()
            return step(generation)

        monkeypatch.setattr(Generation, "step", counted)

    def when(self, number: int, act) -> None:
        """Before step `number`, 1 for the first."""
        self.at.setdefault(number, []).append(act)


def test_a_late_chat_is_answered_while_the_others_go_on(models, shelf, monkeypatch):
    """And each answer is what it is alone, base and adapters together, sampled or not."""
    first, second = list(shelf.adapters)[:2]
    warm = Sampling(1.5, 0.9, ENDLESS)
    requests = [
        ask(shelf.base, PROMPTS[1], 60, sampling=warm, seed=1),
        ask(first, PROMPTS[0], 60, sampling=warm, seed=2),
        ask(second, PROMPTS[3], 3),
        ask(shelf.base, PROMPTS[2], 4, sampling=warm, seed=4, count=3),
    ]
    alone = [models.submit_chat(request).future.result(60) for request in requests]
    steps = Steps(monkeypatch)
    late: list[Future] = []
    unfinished = []

    def check(job):
        job.add_done_callback(lambda _: unfinished.append(sum(not one.future.done() for one in long)))

    def come(request):
        late.append(models.submit_chat(request).future)
        check(late[-1])

    for number, request in ((5, requests[2]), (9, requests[3])):
        steps.when(number, lambda request=request: come(request))
    long = [models.submit_chat(request) for request in requests[:2]]
    together = [job.future.result(60) for job in long] + [one.result(60) for one in late]
    for got, expected in zip(together, alone, strict=True):
        assert [one.tokens for one in got.written] == [one.tokens for one in expected.written]
        for one, same in zip(got.written, expected.written, strict=True):
            assert one.policy_log_p == pytest.approx(same.policy_log_p, abs=1e-3)
            assert one.log_p == pytest.approx(same.log_p, abs=1e-3)
    assert unfinished == [2, 2]
    assert max(map(len, steps.lengths)) >= 5
    assert together[2].written[0].text == shelf.continues(second, PROMPTS[3], 3)


def test_a_chat_whose_caller_leaves_frees_its_rows_before_the_next_token(models, shelf, monkeypatch):
    stay = ask(shelf.base, PROMPTS[1], 30, sampling=Sampling(2.0, 1.0, ENDLESS), seed=5)
    expected = models.submit_chat(stay).future.result(60)
    steps = Steps(monkeypatch)
    told: list = []
    joined: list = []
    leaving: list = []
    steps.when(1, lambda: joined.append(models.submit_chat(stay)))
    steps.when(6, lambda: leaving[0].leave())
    long = ask(shelf.base, PROMPTS[0], 90, sampling=Sampling(2.0, 1.0, ENDLESS), seed=3, count=2)
    leaving.append(models.submit_chat(long, told.append))
    with pytest.raises(Fault, match="left"):
        leaving[0].future.result(60)
    assert joined[0].future.result(60).written[0].tokens == expected.written[0].tokens
    assert [len(lengths) for lengths in steps.lengths[4:7]] == [3, 3, 1]
    assert isinstance(told[0], Begun) and all(isinstance(one, Piece) for one in told[1:])


def test_pieces_are_the_answer(models, shelf):
    told: list = []
    request = ask(shelf.base, sampling=Sampling(1.8), seed=11, count=2, top_logprobs=1)
    answer = models.submit_chat(request, told.append).future.result(60)
    assert told[0] == Begun(answer.prompt_tokens)
    for index, written in enumerate(answer.written):
        pieces = [piece for piece in told[1:] if piece.index == index]
        assert "".join(piece.text for piece in pieces) == written.text
        assert [score for piece in pieces for score in piece.logprobs] == written.logprobs
        assert [piece.written for piece in pieces] == [None] * (len(pieces) - 1) + [written]
        assert sum(score.log_p for score, _ in written.logprobs) == pytest.approx(written.log_p, abs=1e-4)


def test_bases_grow_side_by_side_and_one_too_many_waits_for_room(shelf, monkeypatch):
    other, _ = shelf.make_base(9)
    third, _ = shelf.make_base(10)
    models = ModelThread(ModelPool(ArtifactStore(LocalStore(shelf.root)), CPU, max_bases=2, max_adapters=2))
    models.start()
    ended: list[str] = []
    jobs = []
    try:
        steps = Steps(monkeypatch)
        come = threading.Event()

        def ask_for(name: str, model: str, tokens: int) -> None:
            jobs.append(models.submit_chat(ask(model, tokens=tokens, sampling=Sampling(2.0, 1.0, ENDLESS), seed=3)))
            jobs[-1].future.add_done_callback(lambda _: ended.append(name))

        def others_come() -> None:
            ask_for("other", other, 20)
            ask_for("third", third, 3)
            ask_for("behind it", shelf.base, 2)
            come.set()

        steps.when(2, others_come)
        ask_for("first", shelf.base, 60)
        assert come.wait(60)
        for job in jobs:
            job.future.result(60)
        assert ended[0] == "other" and set(ended[1:3]) == {"third", "behind it"} and ended[3] == "first"
    finally:
        models.stop()


def test_what_breaks_one_request_leaves_the_others_alone(models, shelf, monkeypatch):
    expected = models.submit_chat(ask(shelf.base)).future.result(60)
    steps = Steps(monkeypatch)
    bad: list = []
    steps.when(3, lambda: bad.append(models.submit_chat(ask("0" * 64))))
    steps.when(4, lambda: bad.append(models.submit_chat(ask(shelf.base, "word " * 500))))
    assert models.submit_chat(ask(shelf.base)).future.result(60).written[0].tokens == expected.written[0].tokens
    codes = [job.future.exception(60).code for job in bad]
    assert codes == ["model_not_found", "context_length_exceeded"]


def test_a_step_that_fails_fails_its_chats_and_no_later_ones(models, shelf, monkeypatch, caplog):
    def broken(generation):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Generation, "step", broken)
        with pytest.raises(Fault) as fault:
            models.submit_chat(ask(shelf.base)).future.result(60)
    assert fault.value.code == "internal_error" and "out of memory" in caplog.text
    assert models.submit_chat(ask(shelf.base, tokens=2)).future.result(60).completion_tokens


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"olmo tied"}))
def test_rows_join_in_every_family_of_models(shelf, tmp_path, family, monkeypatch):
    """Sliding windows count a row's own tokens, whatever padding stands before it."""
    tokenizer = load_tokenizer(shelf.folder)
    model = make_model(family, len(tokenizer))
    save(Loaded(model, tokenizer), tmp_path / "model")
    digest = put(tmp_path, tmp_path / "model", "model")
    models = ModelThread(ModelPool(ArtifactStore(LocalStore(tmp_path)), CPU, max_bases=1, max_adapters=1))
    models.start()
    try:
        requests = [ask(digest, PROMPTS[1], 24), ask(digest, PROMPTS[2], 12), ask(digest, PROMPTS[0], 12)]
        steps = Steps(monkeypatch)
        jobs: list = []
        for number, request in ((3, requests[1]), (6, requests[2])):
            steps.when(number, lambda request=request: jobs.append(models.submit_chat(request)))
        jobs.insert(0, models.submit_chat(requests[0]))
        jobs[0].future.result(60)
        for job, request in zip(jobs, requests, strict=True):
            text = tokenizer.apply_chat_template(list(request.messages), add_generation_prompt=True, tokenize=False)
            ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
            with torch.inference_mode():
                out = model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
                    max_new_tokens=request.max_tokens, eos_token_id=tokenizer.eos_token_id,
                )  # fmt: skip
            assert job.future.result(60).written[0].tokens == tuple(out[0, ids.shape[1] :].tolist())
        assert max(map(len, steps.lengths)) >= 2
    finally:
        models.stop()
