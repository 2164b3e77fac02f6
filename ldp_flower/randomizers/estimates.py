"""Sums of debiased reports, and the estimates that follow from them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..validation import Floats


@dataclass(frozen=True)
class Estimate:
    """Estimated mean over users, with its standard error.

    ``mean``, shape (dim,), is an unbiased estimate of the mean of the users' (clipped) values.
    ``std_error`` is its standard error, computed from the spread of the reports. It therefore
    covers randomisation, sampling of users and their heterogeneity. ``count`` is the number of
    reports.
    """

    mean: Floats
    std_error: Floats
    count: int

    @classmethod
    def side_by_side(cls, parts: Iterable["Estimate"], count: int) -> "Estimate":
        """Return one estimate whose coordinates are those of several estimates, in this order.

        ``count`` is the number of reports of all of them together.
        """
        means, errors = zip(*((part.mean, part.std_error) for part in parts), strict=True)
        return cls(np.concatenate(means), np.concatenate(errors), count)


@dataclass(frozen=True)
class Summary:
    """Sum of debiased reports and sum of their squares, by coordinate, each of shape (size,).

    Summaries of disjoint sets of users can be added.
    """

    count: int
    sum: Floats
    sum_of_squares: Floats

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(
            self.count + other.count,
            self.sum + other.sum,
            self.sum_of_squares + other.sum_of_squares,
        )

    @classmethod
    def empty(cls, dim: int) -> "Summary":
        """Return the summary of no reports, to which others are added; all ``dim`` sums are 0."""
        return cls(0, np.zeros(dim), np.zeros(dim))
