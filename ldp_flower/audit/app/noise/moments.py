"""Mean, variance and range of the numbers of replies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ....validation import Floats
from ..replies import Seen


@dataclass
class Moments:
    """Mean, variance and range of the numbers of each message's replies, as they come."""

    count: int = 0
    means: dict[int, Floats] = field(default_factory=dict)
    squares: dict[int, Floats] = field(default_factory=dict)
    low: dict[int, Floats] = field(default_factory=dict)
    high: dict[int, Floats] = field(default_factory=dict)
    forms: Counter[tuple[int, bytes]] = field(default_factory=Counter)

    def add(self, run: Sequence[Seen]) -> None:
        """Take another run."""
        self.count += 1
        for number, reply in enumerate(run):
            values = vector(reply)
            self.forms[number, reply.form_digest] += 1
            if number not in self.means:
                self.means[number], self.squares[number] = values.copy(), np.zeros_like(values)
                self.low[number], self.high[number] = values.copy(), values.copy()
            elif self.means[number].shape == values.shape:
                self.low[number] = np.minimum(self.low[number], values)
                self.high[number] = np.maximum(self.high[number], values)
                # Welford's, since a model's noise may be tiny beside its numbers.
                before = values - self.means[number]
                self.means[number] += before / self.count
                self.squares[number] += before * (values - self.means[number])

    def apart_in_form(self, other: "Moments") -> float:
        """Return how far the forms of replies are apart, from 0 to 1, for the worst message."""
        shares = [
            {form: many / each.count for form, many in each.forms.items()} for each in (self, other)
        ]
        found: dict[int, float] = {}
        for number, form in {*shares[0], *shares[1]}:
            here, there = (share.get((number, form), 0.0) for share in shares)
            # One that is never seen twice tells nothing.
            if max(self.forms[number, form], other.forms[number, form]) > 1:
                found[number] = found.get(number, 0.0) + max(here - there, 0.0)
        return max(found.values(), default=0.0)

    def variance(self, number: int) -> Floats:
        """Return the variance of a message's numbers."""
        return self.squares[number] / max(self.count - 1, 1)

    @property
    def noisy(self) -> bool:
        """Whether any number varied."""
        return any((square > 0).any() for square in self.squares.values())


def vector(reply: Seen) -> Floats:
    """Return all numbers of a reply but readings of clocks, in one dimension."""
    parts = [values for path, values in reply.numbers.items() if path not in reply.clocks]
    return np.concatenate(parts) if parts else np.zeros(0)


def moments(runs: Sequence[list[Seen]]) -> Moments:
    """Return mean and variance of the numbers of runs."""
    found = Moments()
    for run in runs:
        found.add(run)
    return found
