"""A small taskset of verifiers, run with the real package where there is one, and with the stub beside it."""

import verifiers.v1 as vf

WORDS = ("lemon", "stone", "river", "candle", "paper", "broken", "boxed")


class ReverseData(vf.TaskData):
    word: str
    answer: str


class ReverseTask(vf.Task[ReverseData]):
    @vf.metric
    async def length(self, trace) -> float:
        return float(len(trace.last_reply))

    @vf.reward(weight=2.0)
    async def exact(self, trace) -> float:
        print("a taskset may print")  # noqa: T201 - which must not look like an answer of the host
        return float(trace.last_reply == self.data.answer)

    @vf.reward
    async def letters(self, task, trace) -> dict[str, float]:
        if task.word == "broken":
            raise KeyError("no letters")
        return {"letters": len(set(trace.last_reply) & set(task.answer)) / len(set(task.answer))}


class ReverseConfig(vf.TasksetConfig):
    prefix: str = "Write backwards: "


class ReverseTaskset(vf.Taskset[ReverseTask, ReverseConfig]):
    def load(self):
        for word in WORDS:
            image = "ubuntu:24.04" if word == "boxed" else None
            data = ReverseData(word=word, answer=word[::-1], prompt=self.config.prefix + word, image=image)
            yield ReverseTask(data, self.config.task)


__all__ = ["ReverseTaskset"]
