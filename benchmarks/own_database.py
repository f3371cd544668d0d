"""A database of a benchmark's own, with the schema of the project and nothing in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_database() -> Iterator[None]:
    """Sets Django up for tests. Models may be imported inside only."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings_test")
    import django

    django.setup()
    from django.conf import settings
    from django.test.utils import get_runner, setup_test_environment, teardown_test_environment

    setup_test_environment(debug=False)
    runner = get_runner(settings)(verbosity=0, interactive=False)
    databases = runner.setup_databases(serialized_aliases=set())
    try:
        yield
    finally:
        runner.teardown_databases(databases)
        teardown_test_environment()
