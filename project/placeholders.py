"""The placeholders for secrets in .env.example: settings refuse to start while one is left."""

import re
from collections.abc import Mapping

from project.environment import InvalidSetting

# What .env.example has in the place of every secret. Other programs' variables may hold such words as they like.
PLACEHOLDER = "replace-me-"
OURS = re.compile(r"RECKONER_\w+|POSTGRES_\w+|DATABASE_URL|REDIS_URL")


def refuse_placeholders(environment: Mapping[str, str]) -> None:
    """Raises InvalidSetting, naming the variables, when one still has its word from .env.example, which everybody
    knows."""
    left = sorted(name for name, value in environment.items() if OURS.fullmatch(name) and PLACEHOLDER in value)
    if left:
        raise InvalidSetting(
            f"{', '.join(left)}: still what .env.example says ({PLACEHOLDER}…). "
            "Remove .env and run `make env`, or set secrets of your own"
        )
