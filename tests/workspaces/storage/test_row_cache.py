"""The cache of objects made of rows: what it keeps, and that it stays small."""

from __future__ import annotations

from workspaces.storage.row_cache import RowCache


def test_an_object_is_kept_until_its_row_has_another_stamp() -> None:
    cache = RowCache[str]()
    cache.keep("key", "1/10", "first")
    assert cache.find("key", "1/10") == "first"
    assert cache.find("key", "2/11") is None and cache.find("other", "1/10") is None
    cache.keep("key", "2/11", "second")
    assert cache.find("key", "2/11") == "second" and cache.find("key", "1/10") is None


def test_several_objects_are_kept_up_to_the_limit() -> None:
    cache = RowCache[int](most=3)
    for number in range(3):
        cache.keep(number, "1/10", number)
    assert [cache.find(number, "1/10") for number in range(3)] == [0, 1, 2]
    cache.keep(3, "1/10", 3)
    assert cache.find(3, "1/10") == 3 and cache.find(0, "1/10") is None
