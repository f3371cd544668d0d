"""Reads settings from the environment: `project.settings` alone imports it.

A value that cannot be used raises InvalidSetting, which names the variable and what would be right.
"""

from __future__ import annotations

import math
import os

from django.core.exceptions import ImproperlyConfigured


class InvalidSetting(ImproperlyConfigured, ValueError):
    """The instance cannot start with this environment."""


def env(name: str, default: str) -> str:
    return os.environ.get(name) or default


def env_flag(name: str, default: bool = False) -> bool:
    value = os.environ.get(name)
    if value is None or value == "":
        return default
    if value.lower() in {"1", "true", "yes", "on"}:
        return True
    if value.lower() in {"0", "false", "no", "off"}:
        return False
    raise InvalidSetting(f"{name}={value!r}: give 1 or 0")


def env_list(name: str, default: str) -> list[str]:
    return [item.strip() for item in env(name, default).split(",") if item.strip()]


def env_int(name: str, default: str) -> int:
    try:
        return int(env(name, default))
    except ValueError as error:
        raise InvalidSetting(f"{name}={env(name, default)!r}: give a whole number, such as {default}") from error


def env_float(name: str, default: str) -> float:
    try:
        number = float(env(name, default))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidSetting(f"{name}={env(name, default)!r}: give a number, such as {default}")
    return number
