"""Where both are defined, our GRPO is TRL's: advantages, loss and gradient on completions of one token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.engine.engine_world import QUIET_TRL
from training.engine.methods.grpo import group_advantages
from training.engine.methods.online import clipped_surrogate
from training.engine.models.loading import build_tiny, build_tokenizer, trainable_parameters
from training.engine.spec.run_spec import TinyShape

GROUP, CLIP = 4, 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's own, of the libraries it uses
def test_advantages_loss_and_gradient_are_trl_s(tmp_path: Path) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        """Keeps what a step learns from, in the order of its groups."""

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            self.seen = super()._generate_and_score_completions(inputs)
            return self.seen

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [float(ids[0] % 3) for ids in completion_ids]

    torch.manual_seed(1)
    tokenizer = build_tokenizer(["a note", "an invoice to pay"], ["x", "y"], 300)
    shape = TinyShape(vocabulary=300, hidden=16, layers=1, heads=2, key_value_heads=1)
    settings = trl.GRPOConfig(
        output_dir=str(tmp_path),
        loss_type="grpo",
        beta=0.0,
        epsilon=CLIP,
        num_generations=GROUP,
        max_completion_length=1,
        per_device_train_batch_size=2 * GROUP,
        max_steps=1,
        learning_rate=1e-2,
        **QUIET_TRL,
    )
    trainer = Trainer(
        model=build_tiny(shape, tokenizer),
        reward_funcs=[reward],
        args=settings,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a note", "an invoice"]}),
        processing_class=tokenizer,
    )
    trainer.train()

    seen, model = trainer.seen, trainer.model.eval()
    rewards = torch.tensor(reward(seen["completion_ids"].tolist())).view(-1, GROUP)
    assert rewards.std(1).min() > 0  # every group has something to prefer
    advantages = group_advantages(rewards).flatten()
    assert advantages.tolist() == pytest.approx(seen["advantages"].tolist(), abs=1e-5)

    def log_p() -> Tensor:
        ids, mask = (torch.cat([seen[f"prompt_{x}"], seen[f"completion_{x}"]], 1) for x in ("ids", "mask"))
        logits = model(input_ids=ids, attention_mask=mask).logits[:, -2]
        return logits.log_softmax(-1).gather(1, seen["completion_ids"])[:, 0]

    old = (log_p() + torch.linspace(-0.1, 0.1, 2 * GROUP)).detach()  # other weights than those in training
    theirs = trainer.compute_loss(model, seen | {"old_per_token_logps": old[:, None]})
    ours = clipped_surrogate(log_p(), old, advantages, CLIP)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5) and abs(ours.item()) > 1e-3
    weights = list(trainable_parameters(model).values())
    for mine, trls in zip(torch.autograd.grad(ours, weights), torch.autograd.grad(theirs, weights), strict=True):
        assert torch.allclose(mine, trls, atol=1e-5)
