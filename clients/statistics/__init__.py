"""Statistics: what a query may ask about each user, computed for all users at once.

A statistic is a pure function of the users and of the query's public arrays and
numbers; row i of its result depends on user i's rows alone. It may be wrong about
its own user without harm (the randomizer brings any value into its domain), but
never mix users: rows are reduced by operations whose result for one user does not
depend, to the last bit, on which other users are in the batch (see :mod:`.rows` and
:mod:`ldp_flower.elementwise`). Every one sees float64 only (see :class:`Statistic`).
"""

from collections.abc import Mapping

from .classes import CLASSES
from .evaluation import EVALUATION
from .items import ITEMS
from .labels import LABELS
from .mapped import fourier, projected
from .means import MEANS
from .moments import MOMENTS
from .records import RECORDS
from .regression import REGRESSION
from .rotated import rotated, rotated_bins
from .selection import SELECTION
from .standardised import STANDARDISED
from .statistic import Statistic
from .teacher import TEACHERS

_ROTATED = {
    "mean": MEANS["mean"],
    "gradient": REGRESSION["gradient"],
    "residual_coefficients": REGRESSION["residual_coefficients"],
}

_PROJECTED = {"mean": MEANS["mean"], **MOMENTS, **RECORDS}
_FOURIER = {"second_moments": MOMENTS["second_moments"], "record": RECORDS["record"]}

#: The closed registry: the only statistics that a query can name.
STATISTICS: Mapping[str, Statistic] = {
    **REGRESSION,
    **SELECTION,
    **CLASSES,
    **MEANS,
    **MOMENTS,
    **RECORDS,
    **{f"projected_{name}": projected(statistic) for name, statistic in _PROJECTED.items()},
    **{f"fourier_{name}": fourier(statistic) for name, statistic in _FOURIER.items()},
    **{f"rotated_{name}": rotated(statistic) for name, statistic in _ROTATED.items()},
    **{f"rotated_{name}_bins": rotated_bins(statistic) for name, statistic in _ROTATED.items()},
    **ITEMS,
    **LABELS,
    **TEACHERS,
    **EVALUATION,
    **STANDARDISED,
}

__all__ = ["STATISTICS", "Statistic"]
