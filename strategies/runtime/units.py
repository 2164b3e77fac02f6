"""Coefficients for a schema's standardised features, in the units of its table."""

import numpy as np

from ldp_flower.schema import Categories, Numeric, Schema
from ldp_flower.validation import Floats


def in_units(schema: Schema, coef: Floats, std_error: Floats) -> tuple[list[str], Floats, Floats]:
    """Return units, coefficients and standard errors as a table shows them.

    They are given for ``schema.features``, the intercept first, of standardised targets (of scale 1
    where the target is no number). Units are ``"target"``, or ``"target / column"`` for the slope
    of a column of numbers. The first coefficient is the prediction where all columns of numbers
    have their centres and categories are equally likely; without a standard error it is none.
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


def contrasts(schema: Schema, coef: Floats) -> Floats:
    """Return the same model, with slopes of a column's categories that add up to 0.

    Indicators are centred, so that a number added to all of a column's slopes changes no
    prediction; without it each is the difference from an average category.
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
