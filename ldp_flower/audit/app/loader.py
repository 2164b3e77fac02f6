"""Loader of an app: the function that returns its data. The audit changes these data."""

import inspect
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

from .findings import CannotAuditError
from .loading import AuditedApp

#: Names of this function in most apps: Flower's own examples, and those of this library.
USUAL = ("load_data", "load_users", "load_records")
DECLARE = (
    "Name the function that returns a node's data with --loader MODULE:FUNCTION, or declare it in "
    "pyproject.toml: [tool.flwr.app.components] loader = 'module:function'. Several are separated "
    "by commas."
)


def loaders_of(app: AuditedApp, named: str | None) -> dict[str, FunctionType]:
    """Return the functions that return a node's data, by reference ``module:function``.

    They are the functions in ``named``, by default those that the project declares. An app that
    declares no function must have exactly one function with a usual name. Otherwise, or if a name
    is not that of a function of the app, raise :class:`CannotAuditError`.
    """
    modules = {module.__name__: module for module in app.modules()}
    known = {
        f"{name}:{key}"
        for name, module in modules.items()
        for key, value in vars(module).items()
        if getattr(_function(value), "__module__", None) == name
    }
    if (named := named or app.loader) is None:
        usual = [each for each in known if each.rpartition(":")[2] in USUAL]
        if len(usual) != 1:
            raise CannotAuditError(
                f"Expected one function {' or '.join(USUAL)} in the app, got "
                f"{sorted(usual) or 'none'}. "
                f"{DECLARE} The app's functions: {sorted(known)}."
            )
        (named,) = usual
    found = {}
    for reference in map(str.strip, named.split(",")):
        module, _, name = reference.partition(":")
        try:
            function = _function(attrgetter(name)(modules[module]))
        except (KeyError, AttributeError):
            function = None
        if function is None or function.__module__ not in modules:
            raise CannotAuditError(
                f"Expected the loader to be a function of the app, one of {sorted(known)}, got "
                f"{reference!r}. {DECLARE}"
            )
        found[reference] = function
    return found


def _function(value: Any) -> FunctionType | None:
    """Return the Python function inside a method, a cache or another wrapper, or None."""
    function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
    return function if isinstance(function, FunctionType) else None


def intercept(function: FunctionType, change: Callable[[Any], Any]) -> None:
    """Make a function return ``change(result)``, under all names by which code refers to it.

    The function's code is replaced in place, since modules of the app may have imported it.
    """
    parts = function.__globals__, function.__name__, function.__defaults__, function.__closure__
    original = FunctionType(function.__code__, *parts)
    original.__kwdefaults__ = function.__kwdefaults__
    same_cells = function.__code__.co_freevars  # a function's cells cannot be taken away
    function.__code__ = _answer.__code__.replace(co_freevars=same_cells)
    function.__kwdefaults__ = {"_call": lambda *args, **named: change(original(*args, **named))}


def _answer(*args: Any, _call: Callable[..., Any], **named: Any) -> Any:
    return _call(*args, **named)
