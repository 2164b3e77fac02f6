"""What a ServerApp would train: its main is run as far as a strategy's ``start``.

Nothing else says so reliably what an app's model, settings and evaluation are: Flower's
quickstarts make them inside ``main``.
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
    """Ends main at ``start``, by strategy and arguments; no Exception, which an app may catch."""


def captured(
    client_app: ClientApp, server_app: ServerApp, num_nodes: int, run_config: RunConfig
) -> App:
    """Return what a ServerApp's main gives to the first ``start`` of a strategy of Flower's.

    The nodes run the ClientApp, should main ask them something before. A CannotCompareError says
    that the ServerApp is of the form before Flower's message API, or starts no such strategy.
    """
    if getattr(server_app, "_main", None) is None:  # Flower has no public way to ask
        raise CannotCompareError(
            "Expected a ServerApp with a main function (@app.main()) that calls a strategy's "
            "start, got one of the form before Flower's message API (server_fn)."
        )
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=run_config
    )
    try:
        with _start_intercepted():
            server_app(InProcessGrid(client_app, num_nodes, run_config), context)
    except _StartedError as started:
        strategy, arguments = started.args
        return _app(client_app, strategy, arguments, run_config)
    except Exception as error:
        raise CannotCompareError(
            "The ServerApp's main function failed before it called start(grid=..., "
            "initial_arrays=...) of one of flwr.serverapp.strategy, as far as which it is run "
            f"({_EARLIER}): {type(error).__name__}: {error}"
        ) from error
    raise CannotCompareError(
        "Expected a main function that calls a strategy's start(grid=..., initial_arrays=...), "
        f"got one that ended without ({_EARLIER}). ldp_flower.compare.compare(...) takes the "
        "parts by themselves."
    )


def _app(
    client_app: ClientApp, strategy: Any, arguments: dict[str, Any], run_config: RunConfig
) -> App:
    name = type(strategy).__name__
    if isinstance(strategy, LdpStrategy):
        raise CannotCompareError(
            f"Expected an app with one of Flower's strategies, got {name}: put FedAvg in its "
            "place, and take LdpUpdateMod off the ClientApp. The comparison adds both."
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
    if hasattr(inner, "proximal_mu"):  # FedProx sends it by itself
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
    """Let every strategy's ``start`` end with what it was given."""
    kinds: list[Any] = [Strategy, LdpStrategy]
    for kind in kinds:  # grows
        kinds += kind.__subclasses__()
    # A strategy that an app defines in main itself is not among them: it inherits this one.
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
