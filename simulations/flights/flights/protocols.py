"""The private protocols, with what each is told beforehand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldp_flower import Schema
from ldp_flower.strategies import LdpIht, LdpStrategy, PrivateRegression

from .design import BOUNDS, COLUMNS, SCHEMA

# What LDP-IHT is told besides: some dozens of calls at New York a year, a minute of delay that
# is passed on about one to one, and that few of the columns matter. Public guesses, all three.
SAMPLES_PER_USER = 50
RADIUS = 2.0
SPARSITY = 3


@dataclass(frozen=True)
class Protocol:
    """A strategy by epsilon, and whether it is told typical values of columns besides bounds."""

    strategy: Callable[[float], LdpStrategy[Any]]
    declared: bool

    @property
    def schema(self) -> Schema:
        """What the nodes make features of."""
        return SCHEMA if self.declared else BOUNDS


def private_regression(epsilon: float) -> PrivateRegression:
    """Return the regression for tables: told bounds, and nothing else."""
    return PrivateRegression(BOUNDS, epsilon=epsilon)


def ldp_iht(epsilon: float) -> LdpIht:
    """Return LDP-IHT for standardised columns."""
    return LdpIht(
        len(COLUMNS),
        sparsity=SPARSITY,
        epsilon=epsilon,
        samples_per_user=SAMPLES_PER_USER,
        radius=RADIUS,
    )


PROTOCOLS = {
    "PrivateRegression": Protocol(private_regression, declared=False),
    "LDP-IHT": Protocol(ldp_iht, declared=True),
}
