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


class Ends(RandomSource):
    """Repeats given words along the columns, and one as what draws near an end add to them."""

    def __init__(self, words, further=0):
        self._words, self._more = np.array(words, np.uint64), np.uint64(further)

    def words(self, shape):
        flat = np.resize(self._words, (1, math.prod(shape[1:])))
        return np.repeat(flat, shape[0], axis=0).reshape(shape)

    def _further(self, shape, where):
        return np.full((len(where), 15), self._more)
