"""A randomizer alone beside NumPy drawing its variates, without any arithmetic on them."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.randomizers import SubsetHypercube
from ldp_flower.randomness import KeyedRandom, derive

from .cells import Cell, in_turns
from .privunit import PrivUnit

Floats = NDArray[np.float64]

_CHUNK = 16_384  # users a call
MECHANISMS = {
    f"{mechanism.__name__}, epsilon {epsilon:g}": mechanism(epsilon, 256)
    for mechanism in (SubsetHypercube, PrivUnit)
    for epsilon in (1.0, 4.0)
}


def _draw(mechanism: PrivUnit | SubsetHypercube, values: Floats, rng: np.random.Generator) -> None:
    users, dim = values.shape
    if isinstance(mechanism, PrivUnit):
        rng.standard_normal(values.shape)
        rng.random((users, 3))
        return
    rng.random((users, mechanism.subset))
    rng.integers(0, 1 << 64, (users, 2), np.uint64)
    start = rng.integers(0, 1 << 64, (users, 1), np.uint64)
    run = (start + np.arange(mechanism.subset, dtype=np.uint64)) % np.uint64(dim)
    np.take_along_axis(values, run.astype(np.int64), axis=1)


def beside_numpy(cell: Cell) -> dict[str, float]:
    """Measure randomising with keyed streams, a chunk of users at a time."""
    mechanism, rng = MECHANISMS[cell.name], np.random.default_rng(0)
    values = rng.uniform(-1, 1, (min(_CHUNK, cell.users), cell.dim))
    sizes = [min(_CHUNK, cell.users - start) for start in range(0, cell.users, _CHUNK)]

    def ours() -> None:
        for number, size in enumerate(sizes):
            keyed = KeyedRandom(derive(number, np.arange(size)))
            mechanism.randomize(values[:size], keyed)

    def numpys() -> None:
        for size in sizes:
            _draw(mechanism, values[:size], rng)

    return in_turns(ours, numpys, cell.rounds)
