"""Capture of the model and settings of a ServerApp, by running it up to a strategy's ``start``.

This is the only reliable way to find an app's model, settings and evaluation, since Flower's
quickstarts create them inside ``main``.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Strategy

from ..simulation.grid import InProcessGrid
from ..strategies import LdpStrategy
from .nodes import App, CannotCompareError, RunConfig

_EARLIER = "workflows of Flower's earlier form, LegacyContext, do not call it"


class _StartedError(BaseException):
    """Signal that ends an app's main when it calls ``start``, with the strategy and the arguments.

    It is not an Exception, since an app may catch those.
    """


def captured(
    client_app: ClientApp, server_app: ServerApp, num_nodes: int, run_config: RunConfig
) -> App:
    """Return the app that a ServerApp's main passes to the first ``start`` of a Flower strategy.

    If main sends messages before ``start``, the nodes answer with the ClientApp. Raise
    CannotCompareError if the ServerApp has the form before Flower's message API, or if it starts no
    strategy of Flower.
    """
    if getattr(server_app, "_main", None) is None:  # Flower has no public way to ask
        raise CannotCompareError(
            "Expected a ServerApp with a main function (@app.main()) that calls a strategy's "
            "start, got one of the form before Flower's message API (server_fn)."
        )
    context = Context(1, 0, {}, RecordDict(), run_config)
    try:
        with _start_intercepted():
            server_app(InProcessGrid(client_app, num_nodes, run_config), context)
    except _StartedError as started:
        strategy, arguments = started.args
        return _app(client_app, strategy, arguments, run_config)
    except Exception as error:
        raise CannotCompareError(
            "The ServerApp's main function failed before it called start(grid=..., "
            "initial_arrays=...) of a strategy of flwr.serverapp.strategy, where the comparison "
            f"stops it ({_EARLIER}): {type(error).__name__}: {error}"
        ) from error
    raise CannotCompareError(
        "Expected a main function that calls a strategy's start(grid=..., initial_arrays=...), "
        f"got one that ended without it ({_EARLIER}). ldp_flower.compare.compare(...) takes the "
        "app's parts one by one."
    )


def _app(
    client_app: ClientApp, strategy: Any, arguments: dict[str, Any], run_config: RunConfig
) -> App:
    name = type(strategy).__name__
    if isinstance(strategy, LdpStrategy):
        raise CannotCompareError(
            f"Expected an app with one of Flower's strategies, got {name}: use FedAvg in its "
            "place, and remove LdpUpdateMod from the ClientApp. The comparison adds both."
        )
    inner = strategy
    while isinstance(getattr(inner, "strategy", None), Strategy):  # Flower's wrappers
        inner = inner.strategy
    initial = arguments.get("initial_arrays")
    if not isinstance(initial, ArrayRecord):
        raise CannotCompareError(
            f"Expected start to be given initial_arrays, got {type(initial).__name__}."
        )
    config = dict(arguments.get("train_config") or {})
    if hasattr(inner, "proximal_mu"):  # FedProx adds it to the config in its own code
        config["proximal-mu"] = inner.proximal_mu
    return App(
        client_app,
        initial,
        arguments.get("evaluate_fn"),
        ConfigRecord(config),
        getattr(inner, "arrayrecord_key", "arrays"),
        getattr(inner, "configrecord_key", "config"),
        run_config,
        name,
    )


@contextmanager
def _start_intercepted() -> Iterator[None]:
    """Replace every strategy's ``start`` by a function that raises _StartedError."""
    kinds: list[Any] = [Strategy, LdpStrategy]
    for kind in kinds:  # grows
        kinds += kind.__subclasses__()
    # A strategy class that main itself defines is not in this list, but inherits such a ``start``.
    with ExitStack() as stack:
        for kind in kinds:
            if "start" in vars(kind):
                stopping = _stopping(inspect.signature(kind.start))
                stack.enter_context(mock.patch.object(kind, "start", stopping))
        yield


def _stopping(signature: inspect.Signature) -> Callable[..., NoReturn]:
    def start(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        given = signature.bind(self, *args, **kwargs).arguments
        raise _StartedError(self, {**given, **given.get("kwargs", {})})

    return start
