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
from random_networks import SEVERAL, random_network

from ldp_flower.clients import OneUser
from ldp_flower.clients.private_training.network_gradients import NetworkGradients, tensors_of
from ldp_flower.clients.private_training.on_rows import OnRows
from ldp_flower.clients.private_training.users_app import trained_on
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
    shapes = Shapes(graph.record, graph.parameters, _LIMITS)
    wanted = []
    for number, operation in enumerate(graph.operations):
        results, *_ = shapes.add(operation)
        name = operation.name
        several = name.startswith(SEVERAL)
        parts = range(min(OPERATIONS[name].usable, len(results))) if several else [None]
        wanted += [(name, Reference(number, part)) for part in parts]
    known = {Reference(key): torch.tensor(array) for key, array in network.arrays.items()}
    with torch.no_grad():
        known[RECORD] = torch.from_numpy(row)[None]
        found = evaluate(graph, known, [reference for _, reference in wanted])
    for (name, reference), value in zip(wanted, found, strict=True):
        tensor = shapes.find(reference).tensor
        assert tuple(value.shape) == tensor.shape, name
        assert str(value.dtype) == f"torch.{tensor.dtype}", name


def silo(network, rows, targets):
    """Return the gradients of a silo's records."""
    given = torch.from_numpy(rows), torch.from_numpy(targets)
    of = NetworkGradients(network, *given, COUNT, BLOCK)
    return of.of(tensors_of(network, True), np.arange(COUNT))[0]


def user(network, rows, targets):
    """Return what a user has trained, on its rows in several blocks."""
    asked = LocalTraining(network.graph.to_text(), 2, 0.1)
    taught = OnRows(network, _LIMITS)
    taught._at_once = 2
    features = rows.reshape(COUNT, -1).astype(float)
    return trained_on(taught, OneUser(features, targets.astype(float), 3), asked)


class Fuzz:
    """Counts what random networks were made of, what ran, and which ones failed."""

    def __init__(self, seeds):
        self.tried, self.guarded, self.users, self.failed = Counter(), Guarded(), 0, {}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of variances of one number, and infinities
            for seed in seeds:
                try:
                    self.check(seed)
                except Exception as error:
                    self.failed[seed] = f"{type(error).__name__}: {str(error)[:300]}"

    def check(self, seed):
        """Make one network, run it, and compare."""
        network = random_network(seed, self.tried)
        network.check()
        rng = np.random.default_rng([seed, 1])
        record, target = network.graph.record, network.target()
        rows = rows_of(rng, record, COUNT, rng.choice([0.0, 0.0, 0.1]))
        targets = rows_of(rng, target, COUNT, 0.1)
        check_values(network, rows[0])
        with self.guarded:
            before = silo(network, rows, targets)
        after = silo(network, changed(rng, record, rows), changed(rng, target, targets))
        others = [i for i in range(BLOCK) if i != ODD]
        for name, gradient in before.items():
            same = torch.equal(bits(gradient[others]), bits(after[name][others]))
            assert same, f"{name} depends on another record"
        if target.size == 1:  # users have one number a row
            with self.guarded:
                found = user(network, rows, targets)
            again = user(network, rows, targets)
            same = (np.array_equal(found[key], again[key], equal_nan=True) for key in found)
            assert all(same), "a user's update depends on what lies beside its rows"
            self.users += 1


@pytest.mark.slow
def test_random_networks_touch_their_own_arrays_only():
    found = Fuzz(range(200))
    assert found.failed == {}
    assert found.users > 20 and len(found.guarded.checked) > 80


@pytest.mark.long
def test_more_random_networks_touch_their_own_arrays_only():
    seeds = range(200, 10_000)
    found = Fuzz(seeds)
    assert found.failed == {}
    for name in OPERATIONS:
        accepted = found.tried[name, "fit", "accepted"] + found.tried[name, "misfit", "accepted"]
        assert accepted >= len(seeds) // 400, name
        assert found.tried[name, "misfit", "refused"] >= len(seeds) // 400, name
    assert found.users > len(seeds) // 10
    assert len(found.guarded.checked) > 100 and len(found.guarded.written) > 90


# ------------------------------------------------------------ what the guards see of real holes

ATEN = torch.ops.aten


@pytest.mark.parametrize("short", range(4))
def test_the_guards_see_a_kernel_that_reads_beside_an_array(short):
    """Batch norm's weight, bias, mean or variance has one number, where there are 8 channels."""
    sizes = [1 if place == short else 8 for place in range(4)]
    images, norms = torch.ones(2, 8, 3, 3), [torch.ones(size) for size in sizes]
    with Guarded(), pytest.raises(AssertionError, match="reads beside its arrays"):
        ATEN._native_batch_norm_legit_no_training(images, *norms, 0.1, 1e-5)


def test_the_guards_see_a_kernel_that_writes_beside_an_array():
    """A window between the elements of an image has an index that lies outside of the image."""
    images = torch.ones(3, 1, 2, 2)
    window = [2, 2], [2, 2], [1, 1], [3, 3], False
    found, indices = ATEN.max_pool2d_with_indices(images, *window)
    assert indices.min() >= 4  # there are places 0 to 3
    backward = ATEN.max_pool2d_with_indices_backward.default
    arguments = torch.ones_like(found), images, *window, indices
    with pytest.raises(AssertionError, match="writes beside its arrays"):
        # The other form would write into memory that is not its own.
        Guarded()._write(backward, "pool", arguments, {}, [torch.zeros_like(images)])
