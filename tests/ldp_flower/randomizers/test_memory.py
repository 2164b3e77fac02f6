"""What a report takes of a client's memory, at the largest parameters that a message can name."""

import tracemalloc

import numpy as np
import pytest

from ldp_flower.randomizers import randomizer_from_config
from ldp_flower.randomness import KeyedRandom, derive

MOST = 600 << 20  # bytes: a codebook of 128 MiB, made, ranked and kept
WIDE = 1 << 20  # max-width, as it is unless an operator sets another


@pytest.mark.parametrize(
    "config",
    [
        *(
            {"name": "Codebook", "dim": (1 << 24) // words, "num_codewords": words}
            | {"radius": 1.0, "num_codebooks": 1 << 40, "coin": 1}
            for words in (4096, 256, 16)
        ),
        {"name": "HadamardCodebook", "dim": WIDE - 1, "radius": 1.0, "num_codewords": 4096},
        {"name": "SubsetHypercube", "dim": WIDE, "radius": 1.0},
        {"name": "GaussianMechanism", "dim": WIDE, "radius": 1.0, "delta": 1e-6},
        {"name": "OptimizedLocalHashing", "domain_size": WIDE},
        {"name": "HadamardResponse", "domain_size": WIDE},
        {"name": "SubsetSelection", "domain_size": WIDE, "set_size": 64},
        {"name": "DiscreteSquareWave", "domain_size": 1 << 12},
        {"name": "NarrowSquareWave", "domain_size": 1 << 12, "window": 1 << 12},
    ],
    ids=lambda config: f"{config['name']}-{config.get('num_codewords', '')}",
)
def test_a_report_takes_no_more_memory_than_this(config):
    mechanism = randomizer_from_config({"epsilon": 2.0, **config})
    coins = derive(np.arange(2))
    tracemalloc.start()
    try:
        mechanism.randomize(np.zeros((2, mechanism.width)), KeyedRandom(coins), coins)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < MOST


@pytest.mark.parametrize(
    ("dim", "words"), [(1 << 20, 64), (1 << 23, 4), (1 << 14, 4096), ((1 << 24) + 1, 2)]
)
def test_codebooks_of_half_a_gigabyte_are_refused(dim, words):
    config = {"name": "Codebook", "epsilon": 2.0, "dim": dim, "radius": 1.0}
    config |= {"num_codewords": words, "num_codebooks": 1 << 40, "coin": 1}
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="Expected an integer"):
            randomizer_from_config(config)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
