"""Replaces methods and entries of somebody else's objects so that nobody notices, and puts them back.

A method is replaced by giving the one object a class of its own, below the one it has: `self` stays right, also in
copies, which have the old class again, as what is pickled has. Setting the method on the object would leave every copy
calling the original. That is the last resort, for what allows nothing else: own attributes, classes made by other
machinery (pydantic's), static methods.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import types
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from reckoner_client.errors import ConfigurationError
from reckoner_client.runs import Run, follow

__all__ = ["CallableTool", "Replacements", "as_callable_tool", "is_marked", "mark"]


def mark(wrapper: Any) -> Any:
    """Says of a wrapper that it records, so that it is not wrapped again."""
    wrapper.__reckoner__ = True
    return wrapper


def is_marked(function: Any) -> bool:
    return issubclass(type(function), CallableTool) or getattr(function, "__reckoner__", False) is True


class _Quiet:
    """First among the bases: the host's `__init_subclass__` must not hear of a class that is none of its own."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


class _QuietWithDict(_Quiet):
    """An object changes its class only for one of the same layout, which the first base may decide."""


class Replacements:
    """What was replaced, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Puts everything back, the last first. A second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def set_item(self, owner: Any, key: Any, new: object) -> None:
        old = owner[key]
        owner[key] = new
        self._undo.append(lambda: owner.__setitem__(key, old))

    def set_method(self, owner: object, name: str, new: Callable[..., Any]) -> None:
        """`owner.name(…)` becomes `new(…)`, on this object alone. Raises ConfigurationError where that cannot be."""
        function = inspect.getattr_static(type(owner), name, None)
        own = name in getattr(owner, "__dict__", {})
        plain = type(type(owner)) in {type, ABCMeta}
        if own or not plain or not inspect.isfunction(function) or not self._override(owner, name, function, new):
            self.set_attribute(owner, name, new)

    def set_attribute(self, owner: object, name: str, new: object) -> None:
        """Also where the class would rather not: frozen dataclasses, pydantic's models."""
        # A slot or a property is set back; a method of the class shows again once the attribute is gone.
        held = name in getattr(owner, "__dict__", {}) or hasattr(
            inspect.getattr_static(type(owner), name, None), "__set__"
        )
        old = getattr(owner, name, None)
        put: Callable[[str, Any], None] = functools.partial(setattr, owner)
        try:
            put(name, new)
        except (AttributeError, TypeError, ValueError):
            put = functools.partial(object.__setattr__, owner)
            try:
                put(name, new)
            except (AttributeError, TypeError) as error:
                raise ConfigurationError(f"{type(owner).__name__}.{name} cannot be replaced.") from error
        self._undo.append(lambda: put(name, old) if held else object.__delattr__(owner, name))

    def _override(self, owner: object, name: str, function: Callable[..., Any], new: Callable[..., Any]) -> bool:
        """By a class of the object's own; False where Python does not let it have another one."""
        own = old = type(owner)
        if "__reckoner_own__" not in vars(old):
            try:
                own = _class_below(old)
                object.__setattr__(owner, "__class__", own)
            except TypeError:
                return False
            self._undo.append(lambda: object.__setattr__(owner, "__class__", old))
        before = vars(own).get(name)
        setattr(own, name, mark(_method(owner, function, new)))
        self._undo.append(lambda: delattr(own, name) if before is None else setattr(own, name, before))
        return True


def _class_below(base: type) -> type:
    def reduce(self: Any, protocol: Any) -> Any:
        """Copies and pickles are of the class that the host knows."""
        reduce_as_it_does: Callable[..., Any] = base.__reduce_ex__
        reduced = reduce_as_it_does(self, protocol)
        if not isinstance(reduced, tuple):
            return reduced
        make, arguments, *rest = reduced
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]  # pickle compares its class with the object's
            make = base.__new__
        return (make, tuple(base if argument is made else argument for argument in arguments), *rest)

    def fill(body: dict[str, Any]) -> None:
        body |= {
            "__slots__": (),
            "__module__": base.__module__,
            "__qualname__": base.__qualname__,
            "__doc__": base.__doc__,
            "__reduce_ex__": reduce,
            "__reckoner_own__": True,
        }

    bases: tuple[type, ...] = (base,)
    if any("__init_subclass__" in vars(above) for above in base.__mro__ if above is not object):
        bases = (_QuietWithDict if base.__dictoffset__ else _Quiet, base)
    made = types.new_class(base.__name__, bases, {}, fill)
    return made


def _method(owner: object, function: Callable[..., Any], new: Callable[..., Any]) -> Callable[..., Any]:
    """A method like `function` that is `new` for `owner`. A copy by a class's own `__copy__` may share the class."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return new(*args, **kwargs) if self is owner else function(self, *args, **kwargs)

    return follow(function, lambda args, kwargs: Run(), call)


class CallableTool:
    """A tool that is an object with `__call__`: the same to whoever looks, with `call` in the place of its calls."""

    __slots__ = ("_reckoner_call", "_reckoner_of")

    def __init__(self, original: Any, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_reckoner_of", original)
        object.__setattr__(self, "_reckoner_call", call)

    @property  # type: ignore[misc]  # isinstance() asks it, and shall hear the original's
    def __class__(self) -> type:
        return type(object.__getattribute__(self, "_reckoner_of"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return object.__getattribute__(self, "_reckoner_call")(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_reckoner_of"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_reckoner_of"), name, value)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_reckoner_of"))

    def __eq__(self, other: object) -> bool:
        original = object.__getattribute__(self, "_reckoner_of")
        return other is self or bool(original == other)

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_reckoner_of"))


class _AsyncCallableTool(CallableTool):
    """Frameworks ask whether `__call__` is a coroutine function."""

    __slots__ = ()

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await object.__getattribute__(self, "_reckoner_call")(*args, **kwargs)


def as_callable_tool(original: Any, call: Callable[..., Any]) -> CallableTool:
    """Looks like `original` and calls `call`."""
    kind = _AsyncCallableTool if inspect.iscoroutinefunction(original.__call__) else CallableTool
    return kind(original, call)
