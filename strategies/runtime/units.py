"""Units of coefficients: from the standardised columns of a schema to those of the users' table."""

import numpy as np

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.validation import Floats


def in_units(schema: Schema, coef: Floats, std_error: Floats) -> tuple[list[str], Floats, Floats]:
    """Return units, coefficients and standard errors in the units of the users' table.

    The input is the coefficients and standard errors of ``schema.features``, the intercept first,
    for standardised targets (of scale 1 if the target is not numeric). A unit is ``"target"``, or
    ``"target / column"`` for the slope of a numeric column. The first coefficient returned is the
    prediction for numeric columns at their centres and equally likely categories. It is NaN if it
    has no standard error.
    """
    centre, scale = _centre_and_scale(schema.bounds)
    units, sizes = units_of(schema, schema.target or "target")
    found, errors = scale * coef / sizes, scale * std_error / sizes
    found[0] = found[0] + centre if np.isfinite(errors[0]) else np.nan
    return units, found, errors


def units_of(schema: Schema, predicted: str) -> tuple[list[str], Floats]:
    """Return the names of the coefficients' units, and the scales to divide coefficients by.

    The first is the intercept's.
    """
    units, sizes = [f"{predicted} at the columns' centres"], [1.0]
    for name, kind in schema.columns.items():
        numeric = isinstance(kind, Numeric)
        units += [f"{predicted} / {name}" if numeric else predicted] * kind.width
        sizes += [_centre_and_scale(kind)[1]] * kind.width
    return units, np.array(sizes)


def contrasts(schema: Schema, coef: Floats) -> Floats:
    """Return the coefficients of the same model in which each column's category slopes sum to 0.

    Indicators of categories are centred, so adding a constant to all slopes of a column changes no
    prediction. After this shift each slope is the difference from an average category.
    """
    found = coef.copy()
    for name, kind in schema.columns.items():
        if isinstance(kind, Categories):
            own = schema.places(name)
            places = slice(own.start, own.stop)
            found[..., places] -= found[..., places].mean(axis=-1, keepdims=True)
    return found


def _centre_and_scale(kind: object) -> tuple[float, float]:
    if not isinstance(kind, Numeric):
        return 0.0, 1.0
    centre, one_more = kind.restore([0.0, 1.0])
    return float(centre), float(one_more - centre)
