"""Fixtures of the environments' tests."""

from tests.training.environments.custom_environment import installed  # noqa: F401 - a fixture
from tests.training.environments.problem_files import problem_folder  # noqa: F401 - a fixture
