"""The formulas against numbers calculated by hand, and the refusals around them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from decisions.gateway.exploration import acting_policy
from decisions.rewards.components import ComponentError, Facts
from training.engine.attempt.attempt import Attempt
from training.engine.attempt.events import Events
from training.engine.attempt.stop import StopFlag
from training.engine.data.reading import RunData
from training.engine.machine.hardware import choose_precision, multiplies_bfloat16
from training.engine.methods.all_action import doubly_robust
from training.engine.methods.direct_method import combine, count_words, find_weights, score_apart, what_acted
from training.engine.methods.dpo import Pairs, dpo_loss
from training.engine.methods.grpo import group_advantages
from training.engine.methods.kto import class_weights, downsample, kto_loss
from training.engine.methods.offline import Decisions
from training.engine.methods.online import Actor, ForeignTrajectories, RewardFunction, clipped_surrogate
from training.engine.methods.posterior import posterior_targets
from training.engine.methods.ppo import generalised_advantages, normalise
from training.engine.methods.reward_weighted_texts import train as train_on_rewarded_texts
from training.engine.models.actions import NO_OPTION, ActionScorer, draw_options
from training.engine.models.loading import Loaded, load_model, load_tokenizer, trainable_parameters
from training.engine.rows.types import Labelled, Logged, Preference, Prompt, Text, groups_of_prompts
from training.engine.scoring.rows import divergence, score_rows, serving_probabilities
from training.engine.scoring.states import read_states
from training.engine.spec.run_spec import Data, ModelSource, RewardComponent, RunSpec, Serving, TinyShape
from training.engine.spec.settings import Optimiser
from training.engine.updates.accumulate import Accumulation
from training.engine.updates.answers import mass_loss
from training.engine.updates.fit import Diverged, Updates, fit, pause_for


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (1.0, [0.5 * 0.9, 0.3 * 0.1, 0.2 * 0.1]),
        (0.0, [0.5 * 0.1, 0.3 * 0.9, 0.2 * 0.9]),
        (0.25, [0.5 * 0.3, 0.3 * 0.7, 0.2 * 0.7]),
        (math.nan, [0.5, 0.3, 0.2]),
    ],
)
def test_posterior_is_bayes_rule(reward: float, expected: list[float]) -> None:
    q = torch.tensor([[0.5, 0.3, 0.2]])
    targets = posterior_targets(q, torch.ones(1, 3, dtype=torch.bool), torch.tensor([0]), torch.tensor([reward]), 0.1)
    assert targets[0].tolist() == pytest.approx([value / sum(expected) for value in expected])


def test_decisions_that_nobody_judged_are_guessed_and_teach_nothing() -> None:
    texts, right, actions, known = feedback(240)
    reward = known.astype(float)
    reward[200:] = np.nan
    guessed = fit_direct_method(texts, actions, reward)
    assert (guessed[200:].argmax(1) == right[200:]).mean() > 0.8
    assert np.array_equal(guessed, fit_direct_method(texts, [*actions[:200], *[OPTIONS[0]] * 40], reward))


def test_posterior_gives_nothing_to_what_was_not_offered() -> None:
    q, offered = torch.tensor([[0.6, 0.4, 0.0]]), torch.tensor([[True, True, False]])
    targets = posterior_targets(q, offered, torch.tensor([1]), torch.tensor([0.0]), 0.05)
    assert targets[0, 2] == 0 and targets.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("reward", "propensity", "noise", "expected"),
    [
        (1.0, 0.5, 0.0, [0.2, 0.7 + 2 * 0.3, 0.1]),  # more than was expected, tried every other time
        (0.0, 0.05, 0.0, [0.2, 0.7 - 10 * 0.7, 0.1]),  # its weight of 20 is capped
        (1.0, 1.0, 0.1, [0.26, 1.0, 0.18]),  # of a certain action the log knows best
    ],
)
def test_an_estimate_is_corrected_where_the_log_knows_better(
    reward: float, propensity: float, noise: float, expected: list[float]
) -> None:
    q = torch.tensor([[0.2, 0.7, 0.1]])
    rewards = doubly_robust(q, torch.tensor([1]), torch.tensor([reward]), torch.tensor([propensity]), noise, 10.0)
    assert rewards[0].tolist() == pytest.approx(expected)


def test_a_doubly_robust_estimate_is_unbiased_whatever_is_guessed() -> None:
    """Over every action that might have been taken, weighted by the chance that it was."""
    truth, propensity = torch.tensor([0.9, 0.2, 0.4]), torch.tensor([0.6, 0.3, 0.1])
    guess = torch.tensor([[0.1, 0.8, 0.5]]).expand(3, -1)
    estimates = doubly_robust(guess, torch.arange(3), truth, propensity, 0.0, 100.0)
    assert (propensity[:, None] * estimates).sum(0).tolist() == pytest.approx(truth.tolist())


@pytest.mark.parametrize(
    ("log_ratio", "usual", "right", "expected"),
    [
        ([0.0, 0.0], 0.0, [True, False], 0.5),  # the start itself
        ([2.0, -2.0], 0.0, [True, False], 1 - 1 / (1 + np.exp(-1.0))),  # both have gone where they should
        ([1.0, 1.0], 1.0, [True, False], 0.5),  # as far as is usual
        ([3.0, 0.0], 1.0, [True, True], 1 - (1 / (1 + np.exp(-1.0)) + 1 / (1 + np.exp(0.5))) / 2),
    ],
)
def test_kto_values_actions_by_their_distance_from_what_is_usual(
    log_ratio: list[float], usual: float, right: list[bool], expected: float
) -> None:
    loss = kto_loss(torch.tensor(log_ratio), torch.tensor(usual), torch.tensor(right), torch.ones(2), 0.5)
    assert loss.item() == pytest.approx(expected / 0.5)


@pytest.mark.parametrize(
    ("undesirable", "expected"),
    [
        (1.0, [2.0, 2 / 3, 2 / 3, 2 / 3]),
        (0.1, [4 / 1.1, 0.4 / 3.3, 0.4 / 3.3, 0.4 / 3.3]),
        (0.0, [4.0, 0.0, 0.0, 0.0]),
    ],
)
def test_wrong_rows_together_weigh_a_share_of_the_right_ones(undesirable: float, expected: list[float]) -> None:
    right = torch.tensor([True, False, False, False])
    weights = class_weights(right, undesirable)
    assert weights.tolist() == pytest.approx(expected)
    assert kto_loss(torch.zeros(4), torch.tensor(0.0), right, weights, 0.1).item() == pytest.approx(0.5 / 0.1)


def test_the_larger_class_may_lose_rows_instead() -> None:
    told = [(Logged(str(n), "p", ("a", "b"), "a", reward=value), value) for n, value in enumerate([1.0, 0, 0, 0.6, 0])]
    kept = downsample(told, 0.6, seed=3)
    assert [value for _, value in kept].count(0) == 2 and {row.id for row, _ in kept} > {"0", "3"}
    assert kept == sorted(kept, key=lambda pair: pair[0].id) == downsample(told, 0.6, seed=3)


def test_free_generation_is_kept_valid_without_a_pull_on_the_choice() -> None:
    logits = torch.tensor([[0.6, 0.1, 0.3], [0.5, 0.25, 0.25]]).log().requires_grad_()
    losses = mass_loss(logits, torch.tensor([[True, True, False], [True, False, False]]))
    assert losses.tolist() == pytest.approx([-np.log(0.7), -np.log(0.5)])
    losses.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx(
        [-0.15, -0.15, 0.3]
    )  # the likelier option gains nothing on the other
    assert logits.grad[1].tolist() == pytest.approx([-0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("log_p", "start", "expected"),
    [
        ([[-3.0, -1.0]], [[-3.0, -1.0]], np.log(2)),  # the start itself, whichever text is likelier
        ([[-1.0, -2.0]], [[-3.0, -1.0]], np.log(1 + np.exp(-0.5 * 3.0))),
        ([[-4.0, -4.0], [-1.0, -1.0]], [[-3.0, -3.0], [-1.0, -3.0]], (np.log(2) + np.log(1 + np.exp(1.0))) / 2),
    ],
)
def test_dpo_prefers_by_how_far_each_text_has_moved(
    log_p: list[list[float]], start: list[list[float]], expected: float
) -> None:
    assert dpo_loss(torch.tensor(log_p), torch.tensor(start), 0.5).item() == pytest.approx(expected)


@pytest.fixture
def attempt(base_folder: Path, tmp_path: Path) -> Iterator[Attempt]:
    spec = RunSpec(run_id="x", method="dpo", base=ModelSource(path=str(base_folder)), data=Data(train="rows"))
    with closing(Events(tmp_path / "events.jsonl")) as events:
        yield Attempt(spec, 1, tmp_path, torch.device("cpu"), events, StopFlag())


def log_p_of(model: nn.Module, prompt: list[int], text: list[int]) -> float:
    """Token by token."""
    log_p = model(torch.tensor([prompt + text])).logits[0].log_softmax(-1)
    return sum(log_p[len(prompt) - 1 + place, token].item() for place, token in enumerate(text))


def test_what_the_deciding_model_thought_takes_the_place_of_the_base_s_guess(
    base_folder: Path, attempt: Attempt
) -> None:
    about = {"options": ("a", "b"), "action": "a", "propensity": 0.5, "reward": 1.0}
    unsaid, said = Logged("1", "x", **about), Logged("2", "y", **about, probabilities=(0.9, 0.1))
    known = Labelled("3", "z", ("a", "b", "c"), "c")
    loaded = Loaded(load_model(base_folder, attempt.device), load_tokenizer(base_folder))
    decisions = Decisions(attempt, loaded, [unsaid, said], [known])
    start = decisions.score()
    for found in (what_acted(decisions), what_acted(decisions, start)):
        assert found[0, :2].tolist() == pytest.approx(start[0, :2].tolist(), abs=1e-5)
        assert found[1, :2].tolist() == pytest.approx([np.log(0.9), np.log(0.1)])
    assert what_acted(decisions, start)[2].tolist() == start[2].tolist()
    decisions = Decisions(attempt, loaded, [said], [known])
    decisions.model = nn.Identity()  # nothing is left to score, and it could not
    assert what_acted(decisions)[0, :2].tolist() == pytest.approx([np.log(0.9), np.log(0.1)])


def test_a_text_s_log_probability_is_the_sum_over_its_tokens(base_folder: Path, attempt: Attempt) -> None:
    model = load_model(base_folder, attempt.device)
    rows = [
        Preference("1", "an invoice", "finance", "a text that is no option"),
        Preference("2", "a flight", "x y z", "work"),
    ]
    pairs = Pairs(attempt, Loaded(model, load_tokenizer(base_folder)), RunData(preferences=rows))
    expected = [
        [log_p_of(model, prompt, better), log_p_of(model, prompt, worse)]
        for prompt, better, worse in zip(pairs.prompts, pairs.better, pairs.worse, strict=True)
    ]
    assert pairs.score().numpy() == pytest.approx(np.array(expected), abs=1e-3)
    tokens = sum(len(text) for text in pairs.better)
    assert pairs.log_p([0, 1])[1].item() == pytest.approx(-sum(better for better, _ in expected) / tokens, abs=1e-4)


def test_products_in_bfloat16_are_near_those_in_float32(base_folder: Path, attempt: Attempt) -> None:
    model, tokenizer = load_model(base_folder, attempt.device), load_tokenizer(base_folder)
    scorer = ActionScorer(tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    prompts, options = scorer.encode(["an invoice", "a flight"]), [("travel", "work")] * 2
    log_p = {
        precision: score_rows(
            replace(attempt, spec=attempt.spec.model_copy(update={"precision": precision})),
            model, scorer, prompts, options,
        )
        for precision in (None, "float32", "bfloat16")
    }  # fmt: skip
    assert torch.equal(log_p[None], log_p["float32"])  # the model is small
    assert not torch.equal(log_p["bfloat16"], log_p["float32"])
    assert log_p["bfloat16"].numpy() == pytest.approx(log_p["float32"].numpy(), abs=0.1)
    large = torch.bfloat16 if multiplies_bfloat16() else torch.float32
    assert choose_precision(attempt.device, 1024) is large


def test_rewarded_texts_weigh_as_much_as_they_earned(base_folder: Path, attempt: Attempt) -> None:
    model, tokenizer = load_model(base_folder, attempt.device), load_tokenizer(base_folder)
    rows = [
        Text("1", "an invoice", "finance", reward=0.5),
        Text("2", "a flight", "no option", reward=0.25),
        Text("3", "a letter", "work", reward=0.0),
        Text("4", "a letter", "travel"),
        Text("5", "a letter", "far too long " * 20, reward=1.0),
    ]
    scorer = ActionScorer(tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
    prompts = scorer.encode([row.prompt for row in rows[:2]])
    answers = scorer.answer_ids([row.completion for row in rows[:2]])
    means = [log_p_of(model, prompt, text) / len(text) for prompt, text in zip(prompts, answers, strict=True)]
    expected = -(0.5 / 0.375 * means[0] + 0.25 / 0.375 * means[1]) / 2

    once = attempt.spec.model_copy(update={"optimiser": Optimiser(epochs=1, learning_rate=1e-3)})
    outcome = train_on_rewarded_texts(replace(attempt, spec=once), Loaded(model, tokenizer), RunData(texts=rows))
    assert outcome.metrics["loss"] == pytest.approx(expected, rel=1e-4)
    assert (outcome.steps, outcome.rows) == (1, 2)
    assert outcome.metrics["effective_sample_size"] == pytest.approx(0.75**2 / (0.5**2 + 0.25**2))
    events = (attempt.folder / "events.jsonl").read_text()
    assert "1 of 3 rewarded rows hold texts of over 16 tokens" in events


def test_the_divergence_is_exact_and_leaves_out_what_was_not_offered() -> None:
    log_p = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).log().clamp(min=NO_OPTION)
    start = torch.tensor([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]]).log().clamp(min=NO_OPTION)
    expected = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    assert divergence(log_p, start).tolist() == pytest.approx([expected, 0.0])


def test_generalised_advantages_stop_where_an_episode_ends() -> None:
    rewards, values = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.5, 0.25, 1.0])
    advantages, returns = generalised_advantages(rewards, values, torch.tensor([False, True, True]), 0.9, 0.5)
    last_of_first = 2.0 - 0.25
    first = (1.0 + 0.9 * 0.25 - 0.5) + 0.9 * 0.5 * last_of_first
    assert advantages.tolist() == pytest.approx([first, last_of_first, 4.0])
    assert returns.tolist() == pytest.approx([first + 0.5, 2.0, 5.0])


def test_group_advantages_are_zero_where_a_group_agrees() -> None:
    advantages = group_advantages(torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 3.0]]))
    assert advantages[0].tolist() == [0.0, 0.0, 0.0]
    assert advantages[1].tolist() == pytest.approx([-0.5773, -0.5773, 1.1546], abs=1e-3)


def test_group_advantages_take_the_sample_s_deviation() -> None:
    """As TRL does; by the population's, with divisor G, they would be √(G / (G − 1)) times larger."""
    rewards = torch.tensor([[0.0, 1.0, 1.0, 0.5, 0.0]], dtype=torch.float64)
    by_sample = (rewards - 0.5) / (0.5 + 1e-4)
    by_population = (rewards - 0.5) / (rewards.std(1, correction=0, keepdim=True) + 1e-4)
    assert group_advantages(rewards)[0].tolist() == pytest.approx(by_sample[0].tolist())
    assert by_population[0].tolist() == pytest.approx((by_sample * (5 / 4) ** 0.5)[0].tolist(), rel=1e-3)


def test_decisions_of_one_prompt_whose_rewards_differ_are_a_group() -> None:
    rewards = [("A note", 1.0), ("other", 1.0), ("a  NOTE ", 0.0), ("other", 1.0), ("a note", None), ("alone", 0.0)]
    rows = [Logged(str(i), text, ("x", "y"), "x", reward=reward) for i, (text, reward) in enumerate(rewards)]
    assert [[row.id for row in group] for group in groups_of_prompts(rows)] == [["0", "2"]]


def test_advantages_are_normalised_over_a_batch() -> None:
    assert normalise(torch.tensor([1.0, 2.0, 3.0])).tolist() == pytest.approx([-1.0, 0.0, 1.0], abs=1e-5)
    assert normalise(torch.tensor([0.7])).tolist() == pytest.approx([0.7])


def test_the_surrogate_has_no_slope_beyond_the_clip() -> None:
    log_p = torch.tensor([0.5, 0.5, 0.0], requires_grad=True)
    loss = clipped_surrogate(log_p, torch.zeros(3), torch.tensor([1.0, -1.0, 1.0]), 0.2)
    assert loss.item() == pytest.approx(-(1.2 - np.exp(0.5) + 1.0) / 3, abs=1e-6)
    loss.backward()
    assert log_p.grad is not None
    assert log_p.grad[0] == 0 and log_p.grad[1] > 0 and log_p.grad[2] < 0


def test_numbers_pick_options_by_their_probability() -> None:
    log_p = torch.tensor([[0.25, 0.0, 0.75], [0.5, 0.5, 0.0]]).log().clamp(min=-50.0)
    log_p[1, 2] = NO_OPTION
    chance = torch.tensor([[0.0, 0.2, 0.25, 0.99], [0.4, 0.6, 0.999999, 1.0]])  # the last as if a sum had been rounded
    assert draw_options(log_p, chance).tolist() == [[0, 0, 2, 2], [0, 1, 1, 1]]
    drawn = draw_options(log_p[:1], torch.rand(1, 4000, generator=torch.Generator().manual_seed(1)))
    assert float((drawn == 2).float().mean()) == pytest.approx(0.75, abs=0.03)


def test_serving_probabilities_sharpen_and_explore() -> None:
    log_p = torch.tensor([[0.6, 0.3, 0.1], [0.75, 0.25, 0.0]]).log().clamp(min=-1e4)
    acting = serving_probabilities(log_p, torch.tensor([3, 2]), Serving(temperature=0.5, epsilon=0.1))
    assert acting.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert acting[0, 0].item() == pytest.approx(0.9 * 0.36 / 0.46 + 0.1 / 3)
    assert acting[1].tolist() == pytest.approx([0.9 * 0.9 + 0.05, 0.9 * 0.1 + 0.05, 0.0])


def test_serving_probabilities_keep_to_the_budget_as_the_gateway_does() -> None:
    rows = [[0.7, 0.2, 0.1], [0.5, 0.5], [0.98, 0.02]]
    log_p = torch.full((3, 3), NO_OPTION, dtype=torch.float64)
    for place, row in enumerate(rows):
        log_p[place, : len(row)] = torch.tensor(row, dtype=torch.float64).log()
    serving = Serving(temperature=0.8, epsilon=0.1, exploration_budget=20)
    acting = serving_probabilities(log_p, torch.tensor([3, 2, 2]), serving)
    for row, policy in zip(rows, acting.tolist(), strict=True):
        assert policy[: len(row)] == pytest.approx(acting_policy(row, temperature=0.8, epsilon=0.1, budget=20))


def test_a_reward_that_cannot_be_computed_is_not_zero() -> None:
    reward = RewardFunction([RewardComponent(name="matches_answer", weight=2.0, parameters={"wrong": -1.0})])
    assert reward(Facts(action="a", answer="a")) == 2.0
    assert reward(Facts(action="a", answer="b")) == -2.0
    with pytest.raises(ComponentError):
        reward(Facts(action="a"))
    with pytest.raises(ComponentError, match="none of verdict"):
        RewardFunction([RewardComponent(name="verdict")])(Facts(action="a", answer="a"))


def test_a_rule_of_a_spec_rewards_fresh_decisions() -> None:
    rule = {"text": "-confidence if action == 'a' else 0", "low": -1, "high": 0}
    given = [{"name": "matches_answer"}, {"name": "rule.less_a", "weight": 0.5, "rule": rule}]
    reward = RewardFunction([RewardComponent.model_validate(one) for one in given])
    assert reward(Facts(action="a", answer="a", confidence=0.8)) == pytest.approx(0.6)
    assert reward(Facts(action="b", answer="b", confidence=0.8)) == 1.0


def test_trajectories_of_other_weights_are_refused(base_folder: Path, tmp_path: Path) -> None:
    spec = RunSpec(
        run_id="x",
        method="grpo",
        base=ModelSource(path=str(base_folder)),
        data=Data(train="rows"),
        reward=[RewardComponent(name="matches_answer")],
    )
    events = Events(tmp_path / "events.jsonl")
    attempt = Attempt(spec, 1, tmp_path, torch.device("cpu"), events, StopFlag())
    model = load_model(base_folder, attempt.device)
    rows = [Labelled("1", "an invoice", ("work", "health"), "work"), Labelled("2", "pills", ("a", "b", "c"), "c")]
    actor = Actor(attempt, model, ActionScorer(load_tokenizer(base_folder), 32), rows)
    updates = Updates(trainable_parameters(model), Optimiser(), 4)
    actor.follow(updates)
    scores = actor.score([0, 1])
    trajectories = actor.draw([0, 1], scores.log_p, torch.rand(2, 5))
    assert trajectories.actions[0].max() < 2  # the filler beyond a row's own options is never drawn
    actor.refuse_foreign(trajectories)
    loss = -scores.log_p[:, 0].mean()
    actor.learn(Accumulation(attempt, updates), 2, lambda part: (loss, {}))
    with pytest.raises(ForeignTrajectories):
        actor.refuse_foreign(trajectories)
    events.close()


def test_checkpoints_take_a_tenth_of_the_time_at_most() -> None:
    assert pause_for(0.1, 30) == 30
    assert pause_for(12, 30) / (12 + pause_for(12, 30)) == pytest.approx(0.9)


def test_weights_that_are_no_numbers_end_the_run(tmp_path: Path) -> None:
    spec = RunSpec(run_id="x", method="pretrain", base=ModelSource(tiny=TinyShape()), data=Data(train="rows"))
    events = Events(tmp_path / "events.jsonl")
    attempt = Attempt(spec, 1, tmp_path, torch.device("cpu"), events, StopFlag())
    updates = Updates({"p": nn.Parameter(torch.zeros(3))}, Optimiser(), 2)
    with pytest.raises(Diverged, match="loss not finite after step 2"):
        fit(attempt, updates, 2, lambda step: {"loss": torch.tensor(float("nan"))}, "diverging")
    assert not list(tmp_path.glob("checkpoints/step-*"))
    events.close()


OPTIONS = ("x", "y", "z")


def feedback(rows: int) -> tuple[list[str], list[int], list[str], np.ndarray]:
    """Texts of four words, the first of which says which of three options is right; that place, what was tried, and
    whether it was right."""
    rng = np.random.default_rng(0)
    right, tried = rng.integers(3, size=rows).tolist(), rng.integers(3, size=rows).tolist()
    texts = [" ".join([("red", "green", "blue")[one], *map(str, rng.integers(1_000, size=3))]) for one in right]
    return texts, right, [OPTIONS[one] for one in tried], np.array(right) == np.array(tried)


def fit_direct_method(texts: list[str], actions: list[str], reward: np.ndarray, base: float = 1 / 3) -> np.ndarray:
    """q, (n, 3), where the base gives `base` to the first option."""
    scores = score_apart(count_words(texts), actions, reward, [OPTIONS] * len(texts), folds=3, seed=0, stop=StopFlag())
    log_p = np.log(np.tile([base, (1 - base) / 2, (1 - base) / 2], (len(texts), 1)))
    offered, action = np.ones(scores.shape, dtype=bool), np.array([OPTIONS.index(one) for one in actions])
    return combine([scores], log_p, offered, find_weights([scores], log_p, offered, action, reward, 0.05))


def test_the_direct_method_finds_the_right_option() -> None:
    texts, right, actions, reward = feedback(240)
    q = fit_direct_method(texts, actions, reward.astype(float))
    assert q.sum(1).tolist() == pytest.approx([1.0] * 240)
    assert (q.argmax(1) == right).mean() > 0.9
    # Where texts tell nothing, it believes the base as far as the feedback bears it out.
    silent = fit_direct_method(["?"] * 240, ["x"] * 240, np.ones(240), base=0.8)
    assert 0.75 < silent[0, 0] < 0.9


def test_of_two_classifiers_the_better_one_is_believed() -> None:
    _, right, actions, reward = feedback(240)
    scores = np.where(np.eye(3)[right] == 1, 0.5, -1.0)
    silent = np.random.default_rng(1).normal(size=scores.shape)
    log_p, offered = np.full(scores.shape, np.log(1 / 3)), np.ones(scores.shape, dtype=bool)
    action = np.array([OPTIONS.index(one) for one in actions])
    for both, best in (([scores, silent], 0), ([silent, scores], 1)):
        weights = find_weights(both, log_p, offered, action, reward.astype(float), 0.05)
        assert weights[best] > 3 * weights[1 - best] >= 0
        assert (combine(both, log_p, offered, weights).argmax(1) == right).mean() > 0.95


@pytest.mark.parametrize("most", [1, 256])
def test_states_are_means_over_a_prompts_own_tokens(
    attempt: Attempt, base_folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("training.engine.scoring.states.BATCH", most)
    model, scorer = load_model(base_folder, attempt.device), ActionScorer(load_tokenizer(base_folder), 32)
    asked = [Prompt("an invoice from the bank"), Prompt("pills", "file the notes"), Prompt("a scenic detour")]
    prompts, heads = scorer.encode(asked), scorer.prompts.heads(asked)
    states = read_states(attempt, model, scorer, prompts, heads)
    middle = model.config.num_hidden_layers // 2
    with torch.no_grad():
        each = [model(torch.tensor([ids]), output_hidden_states=True).hidden_states[middle][0] for ids in prompts]
    assert heads[1] > heads[0] == heads[2] == scorer.prompts.head
    own = [one[head : len(one) - scorer.prompts.tail] for one, head in zip(each, heads, strict=True)]
    means = torch.stack([one.mean(0) for one in own])
    wanted = nn.functional.normalize((means - means.mean(0)) / means.std(0), dim=1)
    assert states.tolist() == [pytest.approx(row, abs=1e-4) for row in wanted.tolist()]


def test_a_row_is_scored_without_its_own_feedback() -> None:
    texts, _, actions, reward = feedback(90)
    told = {"folds": 3, "seed": 0, "stop": StopFlag()}
    scores = score_apart(count_words(texts), actions, reward.astype(float), [OPTIONS] * 90, **told)
    reward[7] = ~reward[7]
    again = score_apart(count_words(texts), actions, reward.astype(float), [OPTIONS] * 90, **told)
    assert (scores[7] == again[7]).all() and not (scores == again).all()


def test_options_are_told_apart_by_their_text() -> None:
    texts, _, actions, reward = feedback(90)
    offered = [("z", "x", "unheard of"), *[OPTIONS] * 89]
    scores = score_apart(count_words(texts), actions, reward.astype(float), offered, folds=3, seed=0, stop=StopFlag())
    usual = score_apart(
        count_words(texts), actions, reward.astype(float), [OPTIONS] * 90, folds=3, seed=0, stop=StopFlag()
    )
    assert scores[0].tolist() == [usual[0, 2], usual[0, 0], -1.0] and (scores[1:] == usual[1:]).all()


def test_updates_stop_at_the_clip_norm_and_survive_a_short_schedule() -> None:
    for total in (1, 2, 9, 10):
        parameter = nn.Parameter(torch.zeros(3))
        updates = Updates({"p": parameter}, Optimiser(clip_norm=0.5), total)
        for _ in range(total):
            updates.apply((parameter * 1000).sum())
            assert parameter.grad is not None and parameter.grad.norm() <= 0.5001
        assert torch.isfinite(parameter).all()
