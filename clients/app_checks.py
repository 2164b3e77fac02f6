"""Checks that the app behind a mod can train, by an inspection of Flower's wrappers around it.

They run before any budget is spent, and call no function of the app. They depend on code only, not
on data. Code that they cannot inspect is accepted.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from flwr.clientapp.mod import LocalDpMod

_LEGACY = (
    "The app is in Flower's legacy form (client_fn), which no message reaches: write its "
    "training as a function (message, context) under @app.train()."
)
_TWICE = "LdpUpdateMod is among the mods twice: name it once, for the app or for a train function."
_BEHIND = (
    "Flower's {} is listed after LdpUpdateMod, which clips and randomises by itself: remove it "
    "from the mods."
)
_SECURE_AGGREGATION = (
    "Flower's {} is listed after LdpUpdateMod and cannot process its messages. Remove it from the "
    "mods: each report is private without secure aggregation."
)
_ASYNCHRONOUS = "The train function is asynchronous or a generator: Flower calls plain functions."
_ARGUMENTS = "The train function cannot be called with (message, context)."


def objection(call_next: Callable[..., Any], own: type) -> str | None:
    """Return a fixed text that says what to change in an app, or None if nothing is wrong.

    ``call_next`` is the function that a mod of the class ``own`` would call: the next mod or the
    train function, as Flower has wrapped it.
    """
    *wrappers, innermost = _layers(call_next)
    for wrapper in wrappers:
        mod = _enclosed(wrapper).get("_mod")
        if isinstance(mod, own):
            return _TWICE
        name = "LocalDpMod" if isinstance(mod, LocalDpMod) else _of_flower(mod)
        if name in ("fixedclipping_mod", "adaptiveclipping_mod", "LocalDpMod"):
            return _BEHIND.format(name)
        if name in ("secagg_mod", "secaggplus_mod"):
            return _SECURE_AGGREGATION.format(name)
    if "client_fn" in _enclosed(innermost):
        return _LEGACY
    if inspect.iscoroutinefunction(innermost) or inspect.isgeneratorfunction(innermost):
        return _ASYNCHRONOUS
    return None if _takes_two(innermost) else _ARGUMENTS


def _layers(call_next: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield Flower's wrappers around the mods that follow and, last, the innermost function."""
    yield call_next
    inner = _enclosed(call_next).get("_ffn")
    if callable(inner):
        yield from _layers(inner)


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables that a function of Flower encloses, by name; empty for others."""
    if not inspect.isfunction(function) or not f"{function.__module__}.".startswith("flwr."):
        return {}
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except ValueError:  # a variable is not set yet
        return {}


def _of_flower(mod: object) -> str:
    """Return the name of a function of Flower, or "" for any other function.

    The modules of these functions differ by Flower's version.
    """
    if not inspect.isfunction(mod) or not f"{mod.__module__}.".startswith("flwr."):
        return ""
    return mod.__name__


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError):  # for example a function in C
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
