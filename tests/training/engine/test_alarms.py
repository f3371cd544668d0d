"""What counts as hacking and as forgetting: clear of chance, in both directions; and what a checkpoint keeps of it."""

from __future__ import annotations

import torch

from training.engine.episodes.alarms import History


def shares(right: int, of: int = 100) -> torch.Tensor:
    return torch.tensor([1.0] * right + [0.0] * (of - right))


def rising(by: float, updates: int = 8) -> list[torch.Tensor]:
    """Rewards of eight groups an update, one group less in every other one, as the end of an epoch has it."""
    draw = torch.Generator().manual_seed(1)
    return [0.3 + by * step + 0.05 * torch.randn(8 - step % 2, generator=draw) for step in range(updates)]


def test_hacking_needs_a_reward_that_rises_and_tasks_that_are_lost() -> None:
    history = History(rising(0.05), shares(30))
    assert "the reward does not measure what is wanted" in (history.find_hacking(shares(5)) or "")
    assert history.find_hacking(shares(28)) is None  # within chance
    assert history.find_hacking(shares(60)) is None
    assert History(rising(0.0), shares(30)).find_hacking(shares(5)) is None
    assert History(rising(0.05, updates=5), shares(30)).find_hacking(shares(5)) is None  # too few updates to tell


def test_episodes_that_failed_are_not_taken_for_lost_tasks() -> None:
    now = shares(30)
    now[:25] = torch.nan
    assert History(rising(0.05), shares(30)).find_hacking(now) is None


def test_a_suite_is_forgotten_where_more_than_the_margin_is_lost() -> None:
    history = History(suites={"greetings": shares(90)})
    assert "0.600 of the suite greetings are right, and 0.900 were" in (
        history.find_forgetting("greetings", shares(60), 0.05) or ""
    )
    assert history.find_forgetting("greetings", shares(60), 0.3) is None
    assert history.find_forgetting("greetings", shares(88), 0.0) is None


def test_a_checkpoint_brings_everything_back() -> None:
    history = History(rising(0.05), shares(30), {"greetings": shares(90)}, 0.4, 6, {"w": torch.arange(3.0)})
    again = History.from_kept(history.as_kept())
    assert (again.best, again.best_step, list(again.best_weights)) == (0.4, 6, ["w"])
    assert again.find_hacking(shares(5)) == history.find_hacking(shares(5))
    assert again.find_forgetting("greetings", shares(60), 0.05) == history.find_forgetting(
        "greetings", shares(60), 0.05
    )
