"""Any error can be asked whether a full disk caused it: looking for that raises and hides nothing."""

import errno

import pytest

from workspaces.storage.full_disk import find_full_disk


@pytest.mark.parametrize(
    "error", [OSError(5, 7), OSError(5, b"words"), OSError("words"), OSError(), ValueError(), None]
)
def test_other_errors_are_none_whatever_they_hold(error):
    assert find_full_disk(error) is None


def test_errors_that_cause_each_other_are_looked_at_once():
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert find_full_disk(first) is None
    second.__cause__ = OSError(errno.ENOSPC, "no space")
    assert find_full_disk(first) is not None
