"""The private protocols, with the public guesses that they start from."""

from collections.abc import Callable

from ldp_flower import Users, simulate
from ldp_flower.strategies import LdpIht, LinearResult, SparseRegression, TooFewReports

from .design import COLUMNS

# An aircraft calls at New York some dozens of times a year, and a minute of delay
# is passed on about one to one: public guesses, both.
SAMPLES_PER_USER = 50
RADIUS = 2.0
# Root mean square of the scaled targets where users are too few to learn it: they are
# divided by the spread of delays that has been published for decades.
DECLARED_SCALE = 1.0

Fit = Callable[[Users, float, int], LinearResult]  # users, epsilon, seed


def ldp_iht(epsilon: float, sparsity: int) -> LdpIht:
    """Return LDP-IHT for these features."""
    return LdpIht(
        len(COLUMNS),
        sparsity=sparsity,
        epsilon=epsilon,
        samples_per_user=SAMPLES_PER_USER,
        radius=RADIUS,
    )


def sparse_regression(epsilon: float, target_scale: float | None = None) -> SparseRegression:
    """Return SparseRegression for these features; sparsity and radius are not needed."""
    return SparseRegression(
        len(COLUMNS),
        epsilon=epsilon,
        samples_per_user=SAMPLES_PER_USER,
        target_scale=target_scale,
    )


def fits(sparsity: int) -> dict[str, Fit]:
    """Return the protocols as functions that run them in this process."""

    def by_thresholding(users: Users, epsilon: float, seed: int) -> LinearResult:
        return simulate(ldp_iht(epsilon, sparsity), users, seed=seed)

    def by_waves(users: Users, epsilon: float, seed: int) -> LinearResult:
        try:
            return simulate(sparse_regression(epsilon), users, seed=seed)
        except TooFewReports:  # raised before anybody is asked, from public numbers
            return simulate(sparse_regression(epsilon, DECLARED_SCALE), users, seed=seed)

    return {"LDP-IHT": by_thresholding, "SparseRegression": by_waves}
