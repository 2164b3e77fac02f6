"""Accounting: the total privacy cost of several reports of one user, for readers of results.

The neighbouring relation is always that of the local model: one user's data against
any other data of that user ("replace one"). :mod:`~ldp_flower.accounting.composition`
composes costs and computes the noise for an epsilon. :mod:`ldp_flower.compare` configures Flower's
own methods with this noise.
"""

from ..randomizers.real_valued.gaussian import (
    gaussian_delta,
    gaussian_mu,
    zcdp_epsilon,
    zcdp_rho,
)
from ..renamed import now_in
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

__all__ = [
    "Event",
    "GaussianEvent",
    "RandomizedResponseEvent",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "noise_multiplier_epsilon",
    "total_epsilon",
    "total_mu",
    "zcdp_epsilon",
    "zcdp_rho",
]

_MOVED = ("dp_fedavg", "local_dp_mod", "local_dp_multiplier")
__getattr__ = now_in("ldp_flower.compare", old=__name__, names=_MOVED)
