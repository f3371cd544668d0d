"""Fixtures of the environments' tests."""

from tests.training.environments.custom_environment import installed  # noqa: F401 - a fixture
