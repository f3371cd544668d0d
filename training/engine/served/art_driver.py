"""A program of OpenPipe ART's environment: one training step of its LocalBackend on exported groups of episodes.

It is started by training.engine.served.art with another interpreter, and imports nothing of ours. Standard input has
one line of JSON: groups, result and path (files and a folder), base_model, name, learning_rate. Into `result` goes a
JSON object: step, metrics, checkpoint_path.

A call becomes a Choice with `prompt_token_ids`, `token_ids` and `art_completion_logprobs`, which ART learns from as
they are; the texts beside them are for people. Written against openpipe-art 0.5.23.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any


async def train(asked: dict[str, Any]) -> dict[str, Any]:
    import art
    from art.local import LocalBackend
    from art.trajectories import LegacyHistory
    from openai.types.chat.chat_completion import Choice

    def messages_of(history: list[dict[str, Any]]) -> list[Any]:
        found: list[Any] = []
        for part in history:
            found.append({"role": "user", "content": part["read"]})
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": part["wrote"]},
                "prompt_token_ids": part["prompt_token_ids"],
                "token_ids": part["token_ids"],
                "art_completion_logprobs": part["log_p"],
            }
            found.append(Choice.model_validate(choice))
        return found

    def trajectory_of(episode: dict[str, Any]) -> Any:
        first, *others = map(messages_of, episode["histories"])
        return art.Trajectory(
            messages_and_choices=first,
            additional_histories=[LegacyHistory(messages_and_choices=one) for one in others],
            reward=episode["reward"],
            metrics={"success": episode["success"]},
            metadata={"seed": episode["seed"], "weights_hash": episode["weights_hash"]},
        )

    groups = [
        art.TrajectoryGroup([trajectory_of(episode) for episode in group["episodes"]], metadata={"task": group["task"]})
        for group in map(json.loads, Path(asked["groups"]).read_text(encoding="utf-8").splitlines())
    ]
    model = art.TrainableModel(
        name=asked["name"], run_name=asked["name"], project="reckoner", base_model=asked["base_model"]
    )
    async with LocalBackend(path=asked["path"]) as backend:
        await model.register(backend)
        done = await backend.train(model, groups, learning_rate=asked["learning_rate"])
    return {"step": done.step, "metrics": done.metrics, "checkpoint_path": done.checkpoint_path}


def main() -> int:
    asked: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    Path(asked["result"]).write_text(json.dumps(asyncio.run(train(asked))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
