"""Random networks, most of them with something wrong: what is accepted touches its own arrays only.

Each network that is accepted runs, its values have the declared types and shapes, and whatever one
record is changed to, no bit of another's gradient moves; on the way of silos' records and on that
of users. Every kernel, forwards and backwards, runs between arrays of somebody else.
"""

import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from guards import Guarded, bits
from networks import tensors_of
from random_networks import random_network

from ldp_flower.clients import OneUser
from ldp_flower.clients.private_training.network_app import _Local
from ldp_flower.clients.private_training.network_gradients import NetworkGradients
from ldp_flower.guarantee.training import LocalTraining
from ldp_flower.models import Limits
from ldp_flower.models.checking import Shapes
from ldp_flower.models.graph import RECORD, Reference
from ldp_flower.models.interpreter import evaluate
from ldp_flower.models.operations import OPERATIONS

COUNT, BLOCK, ODD = 5, 6, 2
_FLOATS = (0.0, -1.0, 1e-42, 1e30, -3e38, np.inf, -np.inf, np.nan)
_WORDS = (0, -1, 4711, 1 << 40, -(1 << 62))
_LIMITS = Limits()


def rows_of(rng, tensor, count, odd):
    """Return random values, of which some are anything that a record may hold."""
    shape = (count, *tensor.shape)
    numbers = rng.normal(size=shape) if tensor.dtype != "int64" else rng.integers(0, 5, shape)
    anything = rng.choice(_WORDS if tensor.dtype == "int64" else _FLOATS, shape)
    return np.where(rng.random(shape) < odd, anything, numbers).astype(tensor.dtype)


def changed(rng, tensor, rows):
    """Return rows of which one is another."""
    other = rows.copy()
    other[ODD] = rows_of(rng, tensor, 1, rng.choice([0.2, 1.0]))[0]
    return other


def check_values(network, row):
    """Compare all values of a record with what was declared."""
    graph = network.graph
    shapes = Shapes(graph.record, graph.parameters, _LIMITS.tensor)
    wanted = []
    for number, operation in enumerate(graph.operations):
        shapes.add(operation)
        several = isinstance(shapes._results[-1][0], tuple)
        parts = range(OPERATIONS[operation.name].usable) if several else [None]
        declared = (Reference(number, part) for part in parts)
        wanted += [each for each in declared if several is False or _is_there(shapes, each)]
    known = {Reference(name): torch.tensor(array) for name, array in network.arrays.items()}
    with torch.no_grad():
        found = evaluate(graph, {**known, RECORD: torch.from_numpy(row)[None]}, wanted)
    for reference, value in zip(wanted, found, strict=True):
        tensor = shapes.find(reference).tensor
        assert isinstance(reference.source, int)
        name = graph.operations[reference.source].name
        assert tuple(value.shape) == tensor.shape, name
        assert str(value.dtype) == f"torch.{tensor.dtype}", name


def _is_there(shapes, reference):
    return reference.part < len(shapes._results[reference.source][0])


def silo(network, rows, targets):
    kept, constants = tensors_of(network)
    given = torch.from_numpy(rows), torch.from_numpy(targets)
    of = NetworkGradients(network.graph, constants, *given, COUNT, BLOCK)
    return of.of(kept, np.arange(COUNT))[0]


def user(network, rows, targets):
    asked = LocalTraining(network.graph.to_text(), 2, 0.1)
    local = _Local(network, asked, network.target(), _LIMITS)
    local._at_once = 2  # so that a user's rows come in several blocks
    features = rows.reshape(COUNT, -1).astype(float)
    return local.trained(OneUser(features, targets.astype(float), 3))


def check(seed, tried, guarded):
    """Make one network, run it, and compare."""
    network = random_network(seed, tried)
    network.check()
    rng = np.random.default_rng([seed, 1])
    record, target = network.graph.record, network.target()
    rows = rows_of(rng, record, COUNT, rng.choice([0.0, 0.0, 0.1]))
    targets = rows_of(rng, target, COUNT, 0.1)
    check_values(network, rows[0])
    with guarded:
        before = silo(network, rows, targets)
    after = silo(network, changed(rng, record, rows), changed(rng, target, targets))
    others = [i for i in range(BLOCK) if i != ODD]
    for name, gradient in before.items():
        same = torch.equal(bits(gradient[others]), bits(after[name][others]))
        assert same, f"{name} of network {seed} depends on another record"
    if target.size == 1:  # a user's targets are numbers
        with guarded:
            found = user(network, rows, targets)
        again = user(network, rows, targets)
        assert all(np.array_equal(found[n], again[n], equal_nan=True) for n in found)


def run(seeds):
    tried, guarded, failed = Counter(), Guarded(), {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in seeds:
            try:
                check(seed, tried, guarded)
            except Exception as error:
                failed[seed] = f"{type(error).__name__}: {str(error)[:300]}"
    assert not failed, failed
    return tried, guarded


def test_hundreds_of_random_networks_touch_their_own_arrays_only():
    tried, guarded = run(range(300))
    assert len({name for name, *_ in tried}) == len(OPERATIONS)
