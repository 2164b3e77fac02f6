"""Apps that cannot train are refused by the census: nobody trains, nobody pays."""

import functools

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import (
    LocalDpMod,
    adaptiveclipping_mod,
    fixedclipping_mod,
    message_size_mod,
)

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.clients.app_checks import objection
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.guarantee.training import with_query
from ldp_flower.questions import NormalisedUpdate
from ldp_flower.randomizers import Codebook
from ldp_flower.strategies import LdpFedAvg, TooFewReports

NODES = 60
FLOWERS_NOISE = LocalDpMod(1.0, 1.0, 1.0, 1e-5)


def step_up(message, context):
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    return Message(RecordDict({"arrays": ArrayRecord([weights + 1])}), reply_to=message)


def decorated(function):
    """Return a train function of two arguments whose inner one takes three."""

    @functools.wraps(function)
    def outer(message, context):
        return function(message, context, "more")

    return outer


def never(*arguments):
    raise AssertionError("The census has called the app's own code.")


async def asynchronous(message, context):
    never()


def generator(message, context):
    yield never()


def app_of(mods=(), own=(), train=step_up, **name):
    app = ClientApp(mods=[*mods])
    if train is not None:
        app.train(**name, mods=[*own])(train)
    return app


BAD = {
    "legacy": (ClientApp(client_fn=lambda context: never(), mods=[LdpUpdateMod()]), "client_fn"),
    "no train function": (app_of([LdpUpdateMod()], train=None), r"no train function .* @app.train"),
    "of another name": (app_of([LdpUpdateMod()], action="other"), "no train function of this name"),
    "clips behind": (app_of([LdpUpdateMod(), fixedclipping_mod]), "Flower's fixedclipping_mod is"),
    "clips behind, further down": (
        app_of([LdpUpdateMod(), message_size_mod], [adaptiveclipping_mod]),
        "Flower's adaptiveclipping_mod is listed after",
    ),
    "adds noise behind": (app_of(own=[LdpUpdateMod(), FLOWERS_NOISE]), "Flower's LocalDpMod is"),
    "aggregates securely behind": (
        app_of([LdpUpdateMod(), secaggplus_mod]),
        "Flower's secaggplus_mod is listed after LdpUpdateMod and cannot process its messages",
    ),
    "clips before": (app_of([fixedclipping_mod, LdpUpdateMod()]), "the first of the mods"),
    "adds noise before": (app_of([FLOWERS_NOISE], [LdpUpdateMod()]), "the first of the mods"),
    "twice": (app_of([LdpUpdateMod()], [LdpUpdateMod()]), "among the mods twice"),
    "no mod": (app_of(), r"a train function without it, .* put an instance first, ClientApp"),
    "asynchronous": (app_of([LdpUpdateMod()], train=asynchronous), "is asynchronous"),
    "generator": (app_of([LdpUpdateMod()], train=generator), "or a generator"),
    "one argument": (app_of([LdpUpdateMod()], train=lambda message: never()), "called with"),
    "three": (app_of([LdpUpdateMod()], train=lambda a, b, c: never()), "called with"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_app_that_cannot_train_is_refused_before_anybody_pays(name):
    app, text = BAD[name]
    grid = InProcessGrid(app, NODES)
    model = ArrayRecord([np.zeros(3)])
    with pytest.raises(TooFewReports, match=text):
        LdpFedAvg(epsilon=4.0).start(grid, model, num_nodes=NODES, num_rounds=2)
    assert not any(context.state for context in grid.contexts.values())


SEEN_BY_THE_MOD = [
    *("legacy", "clips behind", "clips behind, further down", "adds noise behind", "twice"),
    *("asynchronous", "generator", "one argument", "three"),
]


@pytest.mark.parametrize("name", SEEN_BY_THE_MOD)
def test_a_query_without_a_census_is_refused_as_well(name):
    app, _ = BAD[name]
    grid = InProcessGrid(app, 1)
    asked = Query(NormalisedUpdate(), Codebook(2.0, 3, num_codewords=8), 1, 0, HASH_END, 1)
    own = RecordDict({"arrays": ArrayRecord([np.zeros(3)]), "config": ConfigRecord()})
    (reply,) = grid.send_and_receive([Message(with_query(own, asked), 1, "train")])
    assert reply.has_error()
    assert not grid.contexts[1].state


class Callable:
    def __call__(self, message, context):
        return step_up(message, context)


@pytest.mark.parametrize(
    "app",
    [
        app_of([LdpUpdateMod()]),
        app_of([LdpUpdateMod(), message_size_mod], [lambda a, b, call_next: call_next(a, b)]),
        app_of([message_size_mod], [LdpUpdateMod()]),
        app_of([LdpUpdateMod()], train=Callable()),
        app_of([LdpUpdateMod()], train=functools.partial(lambda x, m, c: step_up(m, c), 1)),
        app_of([LdpUpdateMod()], train=decorated(lambda m, c, more: step_up(m, c))),
        app_of([LdpUpdateMod()], train=lambda *both: step_up(*both)),
    ],
)
def test_an_app_that_trains_is_not_refused(app):
    grid = InProcessGrid(app, NODES)
    strategy = LdpFedAvg(epsilon=8.0, learning_rate=1.0)
    start = ArrayRecord([np.zeros(3)])
    result = strategy.start(grid, start, num_nodes=NODES, num_rounds=1)
    # Every update is the same unit vector: its mean's noise is .05 a coordinate, or less.
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], 3**-0.5, atol=6 * 0.05)


@pytest.mark.parametrize("module", [None, "flwr.another.version"])
def test_wrappers_of_another_make_are_no_objection(module):
    _ffn = step_up

    def wrapped(message, context):
        return _ffn(message, context)

    wrapped.__module__ = module
    assert objection(wrapped, LdpUpdateMod) is None
    (cell,) = wrapped.__closure__
    del cell.cell_contents
    assert objection(wrapped, LdpUpdateMod) is None


def test_a_wrapper_that_cannot_be_seen_through_is_no_objection():
    def opaque(mod):
        def wrapped(message, context, call_next):
            return mod(message, context, lambda *both: call_next(*both))

        return wrapped

    grid = InProcessGrid(app_of([opaque(LdpUpdateMod()), message_size_mod]), NODES)
    start = ArrayRecord([np.zeros(3)])
    result = LdpFedAvg(epsilon=8.0).start(grid, start, num_nodes=NODES, num_rounds=1)
    assert result.num_reports == NODES
