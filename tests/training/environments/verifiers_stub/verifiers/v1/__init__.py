"""Tasks, tasksets, traces and messages, as `verifiers.v1` has them."""

from dataclasses import dataclass, field
from types import SimpleNamespace


class TaskData:
    idx = id = name = prompt = system_prompt = image = None

    def __init__(self, **fields):
        known = {name for kind in type(self).__mro__ for name in vars(kind).get("__annotations__", ())}
        assert not set(fields) - known - {"idx", "prompt", "image"}, fields
        self.__dict__.update(fields)


class Task:
    NEEDS_CONTAINER = False
    key = hash = "stub"

    def __class_getitem__(cls, data):
        return cls

    def __init__(self, data, config=None):
        self.data, self.config = data, config

    async def setup(self, trace, runtime): ...
    async def finalize(self, trace, runtime): ...
    async def stage_verifier(self, trace, runtime): ...

    @classmethod
    def toolsets(cls, config):
        return []

    def hooks(self, attr):
        assert attr in ("metric", "reward")
        found = [getattr(self, name) for name in dir(type(self)) if hasattr(getattr(type(self), name), attr)]
        return sorted(found, key=lambda fn: fn.__name__)


class TasksetConfig:
    def __init__(self, **fields):
        self.task = SimpleNamespace(judges=[])
        self.__dict__.update(fields)

    @classmethod
    def model_validate(cls, fields):
        return cls(**fields)


class Taskset:
    INFINITE = False

    def __class_getitem__(cls, kinds):
        return cls

    def __init__(self, config):
        self.config = config

    def __iter__(self):
        for index, task in enumerate(self.load()):
            task.data.idx = index
            yield task

    @classmethod
    def toolsets(cls, config):
        return []


def mark(attr, fn=None, **extra):
    def decorate(fn):
        setattr(fn, attr, True)
        fn.__dict__.update(extra)
        return fn

    return decorate if fn is None else decorate(fn)


def metric(fn=None):
    return mark("metric", fn)


def reward(fn=None, weight=1.0):
    return mark("reward", fn, _vf_weight=weight)


@dataclass
class _Message:
    content: str
    role: str = ""

    def model_dump(self, *, mode, exclude_none):
        assert (mode, exclude_none) == ("json", True)
        return {"role": self.role, "content": self.content}


class UserMessage(_Message):
    def __init__(self, content):
        super().__init__(content, "user")


class SystemMessage(_Message):
    def __init__(self, content):
        super().__init__(content, "system")


class AssistantMessage(_Message):
    def __init__(self, content):
        super().__init__(content, "assistant")


@dataclass
class MessageNode:
    parent: int | None
    message: _Message
    sampled: bool = False


@dataclass
class TraceTask:
    type: str
    data: TaskData
    key: str
    hash: str


class SubprocessConfig: ...


@dataclass
class AgentConfig:
    runtime: SubprocessConfig


@dataclass
class AgentInfo:
    config: AgentConfig


class SingleAgentEnv: ...


@dataclass
class Trace:
    task: TraceTask
    agent: AgentInfo
    state: object
    nodes: list = field(default_factory=list)
    is_completed: bool = False
    ok: bool = False
    rewards: dict = field(default_factory=dict)
    metrics: dict = field(default_factory=dict)

    @property
    def last_reply(self):
        return [node.message.content for node in self.nodes if node.sampled][-1].strip()

    def record_reward(self, name, value, weight):
        self.rewards[name] = (value, weight)

    def record_metric(self, name, value):
        self.metrics[name] = value
