"""Accounting: the total privacy cost of several reports of one user, for readers of results.

The neighbouring relation is always that of the local model: one user's data against
any other data of that user ("replace one"). :mod:`~ldp_flower.accounting.composition`
composes costs and computes the noise for an epsilon. :mod:`~ldp_flower.accounting.flower`
configures Flower's own methods with this noise.
"""

from ..randomizers.real_valued.gaussian import (
    gaussian_delta,
    gaussian_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from .composition import (
    Event,
    GaussianEvent,
    RandomizedResponseEvent,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    noise_multiplier_epsilon,
    total_epsilon,
    total_mu,
)
from .flower import dp_fedavg, flower_epsilon, local_dp_mod, local_dp_multiplier

__all__ = [
    "Event",
    "GaussianEvent",
    "RandomizedResponseEvent",
    "dp_fedavg",
    "flower_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "local_dp_mod",
    "local_dp_multiplier",
    "noise_multiplier_epsilon",
    "total_epsilon",
    "total_mu",
    "zcdp_epsilon",
    "zcdp_rho",
]
