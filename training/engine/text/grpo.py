"""Group-relative policy optimisation on texts, through TRL's GRPOTrainer. Method `grpo` of rows of text.

    A_g = (r_g − mean(r)) / (std(r) + 10⁻⁴)        within the G texts of one prompt
    loss = − Σ_g,t min(ρ_t A_g, clip(ρ_t, 1 − c, 1 + c) A_g) / Σ_g |y_g|  +  β KL(π ‖ π₀)

Shao et al. 2024, over tokens t and all texts of a batch as in DAPO (Yu et al. 2025); std is the sample's. Two ways:

- The spec names a reward: the model writes G texts to each prompt, and the reward values them. The row's completion is
  the known answer (`matches_answer`); of JSON and calls of tools the reward sees the value, and not the way it is
  written. The spec's `sampling` draws them, and π is that of its temperature; what top_k and top_p leave out is left
  out of the drawing alone. With `online.ranked` a text's reward is its rank among those of its prompt: for a judge that
  tells better from worse, but whose numbers have no scale.
- It names none: the rows' own texts and rewards are the groups, of prompts whose texts have different rewards.
  TRL takes the texts as if the model had written them, so ρ is 1: this imitates the better texts of a prompt and turns
  from the worse ones, without a correction for the policy that wrote them. Fresh texts teach more.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.environments.grading import rank_within
from training.engine.methods.learned_reward import LearnedReward
from training.engine.models.chats import find_ends
from training.engine.models.loading import Loaded
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.calls import as_completion
from training.engine.rows.types import Prompt, Text, groups_of_prompts, prompts_of
from training.engine.spec.reward_function import RewardFunction, facts_of_text, read_value
from training.engine.text.bridge import Conversations, common_arguments, make_dataset, run_trainer
from training.engine.text.parts import Parts, parts_of


def train(attempt: Attempt, loaded: Loaded, data: RunData) -> Outcome:
    """Trains `loaded` in place on fresh texts where the spec has a reward, else on the rows' own."""
    if attempt.spec.reward:
        return _train_on_fresh(attempt, loaded, data.texts)
    return _train_on_stored(attempt, loaded, data.texts)


def _train_on_fresh(attempt: Attempt, loaded: Loaded, rows: Sequence[Text]) -> Outcome:
    settings, sampling, asked = attempt.spec.online, attempt.spec.sampling, prompts_of(rows)
    chats = AskedAsTokens(Conversations(attempt, loaded).encoder, asked)
    value = RewardFunction(attempt.spec.reward)
    learned_reward = LearnedReward(attempt, value)

    def reward(
        completions: list[str], place: list[int], answer: list[str], log_metric: Any, **others: Any
    ) -> list[float | None]:
        """What the spec's components give to each text; the share of valid JSON and calls is told beside it."""
        texts = [as_completion(text, asked[at].tools) for at, text in zip(place, completions, strict=True)]
        meant = [read_value(text) for text in answer]
        if any(one is not None for one in meant):
            known = [text for text, right in zip(texts, meant, strict=True) if right is not None]
            log_metric("valid_share", sum(read_value(text) is not None for text in known) / len(known))
        learned = learned_reward([(asked[at], text) for at, text in zip(place, completions, strict=True)])
        worth = [
            value(facts_of_text(text, known), one) for text, known, one in zip(texts, answer, learned, strict=True)
        ]
        return list(rank_within(place, worth) if settings.ranked else worth)

    parts = _parts(attempt, len(rows), settings.group)
    end_where_turns_end(loaded)
    trainer: Any = OwnTokens(
        model=loaded.model,
        reward_funcs=[reward],
        args=GRPOConfig(
            **_arguments(attempt, loaded, parts, settings.group),
            max_steps=settings.steps,
            # No more texts are written at once than are learnt from at once, but for a group, which is compared.
            steps_per_generation=max(parts.at_once, settings.group) // parts.at_once,
            max_completion_length=attempt.spec.max_completion_tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        ),
        train_dataset=make_dataset(
            prompt=chats.texts,
            place=list(range(len(rows))),
            answer=[row.completion for row in rows],
        ),
        processing_class=loaded.tokenizer,
    )
    trainer.chats = chats
    return _run(attempt, loaded, trainer, parts, len(rows), "learning from fresh texts (GRPO)")


def _train_on_stored(attempt: Attempt, loaded: Loaded, rows: Sequence[Text]) -> Outcome:
    chats = Conversations(attempt, loaded)
    lessons = {id(lesson.row): lesson for lesson in chats.read_fitting(rows)}
    groups = groups_of_prompts(lesson.row for lesson in lessons.values())
    if not groups:
        raise ValueError("no prompt has two texts that are short enough and have different rewards")
    size = min(attempt.spec.online.group, max(map(len, groups)))
    of_groups = [[(lessons[id(row)].reply_ids, float(row.reward or 0.0)) for row in group] for group in groups]
    asked = AskedAsTokens(chats.encoder, prompts_of(group[0] for group in groups))
    stored: Any = StoredTexts(attempt.spec.seed, asked, of_groups, size)

    def reward(stored_reward: list[float | None], **others: Any) -> list[float | None]:
        """What the ledger says of each."""
        return stored_reward

    accumulated = attempt.spec.optimiser.accumulate
    if len(groups) < accumulated * attempt.processes.count:
        raise ValueError(f"{len(groups)} prompts are too few for an update of {accumulated} accumulated parts")
    parts = _parts(attempt, len(groups) // accumulated, size)
    arguments = _arguments(attempt, loaded, parts, size)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*experimental")
        trainer = GRPOTrainer(
            model=loaded.model,
            reward_funcs=[reward],
            args=GRPOConfig(**arguments, max_completion_length=attempt.spec.max_completion_tokens),
            train_dataset=make_dataset(prompt=asked.texts),
            processing_class=loaded.tokenizer,
            rollout_func=stored,
        )
    return _run(attempt, loaded, trainer, parts, sum(map(len, groups)), "learning from stored texts (GRPO)")


class AskedAsTokens:
    """Prompts as TRL's trainer is given them, as text that the template wrote, and their tokens. Prompts that were cut
    to the same text are one question to the model."""

    def __init__(self, encoder: PromptEncoder, prompts: Sequence[Prompt]) -> None:
        self.texts = encoder.render(prompts)
        self._ids = dict(zip(self.texts, encoder.tokenise(self.texts), strict=True))

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._ids[text] for text in texts]


class OwnTokens(GRPOTrainer):
    """TRL's, on prompts that a template has written already: it would render tools in no way, and tokens otherwise."""

    chats: AskedAsTokens

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return self.chats.ids_of(prompts), None, {}


def end_where_turns_end(loaded: Loaded) -> None:
    """Has the model's own settings end its texts where the template ends turns, too."""
    ends = find_ends(loaded.model, loaded.tokenizer)
    if len(ends) > 1:
        loaded.model.generation_config.eos_token_id = sorted(ends)


class StoredTexts:
    """In the place of generation: gives each prompt `size` of its stored texts, with their rewards.

    Of a larger group a random sample is drawn at each visit; a smaller one is repeated, each text as often as another
    or once more. `groups`: of each prompt the tokens and the reward of its texts.
    """

    def __init__(
        self, seed: int, asked: AskedAsTokens, groups: Sequence[Sequence[tuple[list[int], float]]], size: int
    ) -> None:
        self.seed, self.size, self._asked, self._groups = seed, size, asked, groups
        # The first group answers prompts that are the same to the model.
        self._place: dict[str, int] = {}
        for place, prompt in enumerate(asked.texts):
            self._place.setdefault(prompt, place)

    def __call__(self, prompts: list[str], trainer: Any) -> Mapping[str, Any]:
        """One text for each of `prompts`, in which a group's repetitions follow each other."""
        completion_ids, rewards = [], []
        for start in range(0, len(prompts), self.size):
            place = self._place[prompts[start]]
            rng = random.Random(f"{self.seed}/{trainer.state.global_step}/{place}")  # noqa: S311 - a sample
            for ids, reward in self._draw(self._groups[place], rng):
                completion_ids.append(ids)
                rewards.append(reward)
        return {
            "prompt_ids": self._asked.ids_of(prompts),
            "completion_ids": completion_ids,
            "logprobs": None,
            "stored_reward": rewards,
        }

    def _draw(self, group: Sequence[tuple[list[int], float]], rng: random.Random) -> list[tuple[list[int], float]]:
        whole, rest = divmod(self.size, len(group))
        return [*group] * whole + rng.sample(list(group), rest)


def _parts(attempt: Attempt, known: int, group: int) -> Parts:
    """A step takes of `known` prompts as many as the spec says, equally many in each process, with `group` texts each.
    Texts of one group may be learnt from one after the other: their advantages are known before that."""
    prompts = max(1, min(attempt.spec.online.prompts_per_step, known) // attempt.processes.count)
    return parts_of(attempt, prompts * group, group=group)


def _arguments(attempt: Attempt, loaded: Loaded, parts: Parts, group: int) -> dict[str, Any]:
    settings = attempt.spec.online
    return common_arguments(attempt, loaded, parts) | {
        "num_generations": group,
        "epsilon": settings.clip,
        "beta": settings.kl_of_fresh,
    }


def _run(attempt: Attempt, loaded: Loaded, trainer: Any, parts: Parts, rows: int, message: str) -> Outcome:
    if trainer.ref_model is not None:
        # TRL reads the reference from the model's folder, which a merged adapter is not in.
        trainer.ref_model.load_state_dict(loaded.model.state_dict())
    return run_trainer(attempt, loaded, trainer, parts, rows, message)
