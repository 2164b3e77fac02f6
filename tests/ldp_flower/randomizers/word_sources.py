"""Random sources to test samplers with: given words, and words that are counted."""

import math

import numpy as np

from ldp_flower.randomness import NumpyRandom, RandomSource


class Fixed(RandomSource):
    """Hands out given words, row by row, so that every path of a sampler can be tried."""

    def __init__(self, words):
        self._words = np.array(words, np.uint64)

    def words(self, shape):
        width = math.prod(shape[1:])
        drawn, self._words = self._words[:, :width], self._words[:, width:]
        return drawn.reshape(shape).copy()


class Recorder(NumpyRandom):
    """Remembers how many words were asked for."""

    def __init__(self):
        super().__init__(np.random.default_rng(3))
        self.shapes = []

    def words(self, shape):
        self.shapes.append(shape)
        return super().words(shape)
