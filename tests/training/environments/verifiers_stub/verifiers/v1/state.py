class State: ...


def state_cls(cls):
    return State
