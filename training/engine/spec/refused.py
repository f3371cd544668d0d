"""The error of a spec that cannot be done, as only the model that it names tells. No torch, no Django."""


class Refused(ValueError):
    """The message says why, and what would be right. The engine ends as of a bad spec, without a trace of calls."""
