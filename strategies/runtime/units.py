"""Coefficients for a schema's standardised features, in the units of its table."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.schema import Numeric, Schema

Floats = NDArray[np.float64]


def in_units(schema: Schema, coef: Floats, std_error: Floats) -> tuple[list[str], Floats, Floats]:
    """Return units, coefficients and standard errors as a table shows them.

    Parameters
    ----------
    schema : Schema
        Of the table; one whose target is no number has targets of scale 1.
    coef, std_error : ndarray, shape (num_features,)
        For ``schema.features``, the intercept first, of standardised targets.

    Returns
    -------
    units : list of str
        ``"target"``, or ``"target / column"`` for the slope of a column of numbers.
    coef, std_error : ndarray, shape (num_features,)
        The first one is the prediction where all columns of numbers have their centres and
        categories are equally likely; without a standard error it is none.
    """
    target = schema.target or "target"
    centre, scale = _centre_and_scale(schema.bounds)
    units, sizes = [target], [1.0]
    for name, kind in schema.columns.items():
        numeric = isinstance(kind, Numeric)
        units += [f"{target} / {name}" if numeric else target] * kind.width
        sizes += [_centre_and_scale(kind)[1]] * kind.width
    found, errors = scale * coef / np.array(sizes), scale * std_error / np.array(sizes)
    found[0] = found[0] + centre if np.isfinite(errors[0]) else np.nan
    return units, found, errors


def _centre_and_scale(kind: object) -> tuple[float, float]:
    if not isinstance(kind, Numeric):
        return 0.0, 1.0
    centre, one_more = kind.restore([0.0, 1.0])
    return float(centre), float(one_more - centre)
