"""Runs whose noise is drawn alike: what is left between two of them is the data's doing.

It only chooses what is measured, and in which direction: bounds come from noise as it is.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np

from ....validation import Floats
from ...entering import replaced
from ..data.variants import BASE, Variant
from ..node import Node
from ..replies import Seen
from .moments import Moments, vector

_SEEDS = (1, 2)
_APART = 0.5  # of what independent noise would make of the same difference

#: What a data set does to each message's numbers, by message.
Effect = dict[int, Floats]


@contextmanager
def _drawn_alike(seed: int, modules: Sequence[ModuleType]) -> Iterator[None]:
    """Let generators draw the same inside this context: an app's, libraries', the system's."""
    made, bits = np.random.default_rng, random.Random(seed)

    def default_rng(wanted: Any = None) -> Any:
        return made(bits.getrandbits(64) if wanted is None else wanted)

    torch = sys.modules.get("torch")
    legacy = vars(np.random.mtrand)["_rand"]  # what np.random.normal and the like draw from
    before = random.getstate(), legacy.get_state()
    of_torch = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    legacy.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
    with ExitStack() as stack:
        stack.enter_context(replaced(np.random, default_rng=default_rng))
        stack.enter_context(replaced(os, urandom=bits.randbytes))
        stack.enter_context(replaced(random, _urandom=bits.randbytes))
        for module in modules:
            for name, value in list(vars(module).items()):
                if value is made:
                    stack.enter_context(replaced(module, **{name: default_rng}))
                elif isinstance(value, np.random.Generator):
                    stack.enter_context(_set_to(value.bit_generator, seed))
        try:
            yield
        finally:
            random.setstate(before[0])
            legacy.set_state(before[1])
            if torch is not None:
                torch.set_rng_state(of_torch)


@contextmanager
def _set_to(bits: Any, seed: int) -> Iterator[None]:
    before = bits.state
    bits.state = type(bits)(seed).state
    try:
        yield
    finally:
        bits.state = before


class Effects:
    """What data do to replies, free of noise, where noise can be drawn alike.

    Parameters
    ----------
    node : Node
        Who answers.
    noise : Moments
        Of runs on the data as they are.
    """

    def __init__(self, node: Node, noise: Moments) -> None:
        self._node = node
        spread = {n: noise.variance(n) for n in noise.means}
        self._noise = {n: _evened(v) for n, v in spread.items()}
        self._noisy = {n: v > 0 for n, v in spread.items()}
        self._seen = {BASE: self._answers(BASE)}

    def add(self, variant: Variant) -> None:
        """Let the node answer on other data."""
        self._seen[variant] = self._answers(variant)

    def furthest(self) -> tuple[tuple[Variant, Variant], Effect] | None:
        """Return the two data sets that are furthest apart, and how; None if that is not known."""
        best, found = 0.0, None
        for pair in combinations(self._seen, 2):
            if not pair[0].neighbours(pair[1]):
                continue
            size, effect = self._between(*pair)
            if size > best:
                best, found = size, (pair, effect)
        return found

    def _between(self, one: Variant, two: Variant) -> tuple[float, Effect]:
        """Return how far apart two data sets are, in squared standard deviations of noise."""
        size, effect = 0.0, {}
        for number, noisy in self._noisy.items():
            apart = [
                self._apart(number, first, second)
                for first, second in zip(self._seen[one], self._seen[two], strict=True)
            ]
            if not noisy.any() or any(a is None or a.shape != noisy.shape for a in apart):
                continue
            first, second = (a[noisy] / np.sqrt(self._noise[number][noisy]) for a in apart)
            if np.mean((first - second) ** 2) > 4 * _APART or not np.isfinite(first @ second):
                continue  # the two drew other noise
            size += float(first @ second)
            effect[number] = np.where(noisy, apart[0] + apart[1], 0.0)
        return size, effect

    @staticmethod
    def _apart(number: int, one: Sequence[Seen], two: Sequence[Seen]) -> Any:
        first, second = vector(one[number]), vector(two[number])
        return first - second if first.shape == second.shape else None

    def _answers(self, variant: Variant) -> list[list[Seen]]:
        def answered(answers: Callable[[], list[Seen]]) -> list[list[Seen]]:
            found = []
            for seed in _SEEDS:
                with _drawn_alike(seed, self._node.modules):
                    found.append(answers())
            return found

        found: list[list[Seen]] = self._node.run(variant, answered)
        return found


def _evened(variance: Floats) -> Floats:
    """Return variances of few runs, each drawn to the mean of all."""
    return (variance + float(variance.mean() if variance.size else 0.0)) / 2
