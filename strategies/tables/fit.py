"""Regression on real tables: what comes before a fit and after it, for any strategy that fits."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from ldp_flower.schema import Numeric, Schema
from ldp_flower.validation import check_choice, check_integer

from ..runtime.base import LdpStrategy, Protocol
from ..runtime.exchange import Ask
from ..runtime.result import LinearResult
from .feasibility import check_enough
from .holdout import gate, keep_back
from .standardisation import Mechanism, estimate_standardisation, through

_EFFECTS = ("all", "within")


def check_table(dim: int | Schema, effects: str) -> tuple[int, Schema | None]:
    """Return the number of features, and the schema if there is one.

    Raises
    ------
    ValueError
        If the number is below 1, the schema's target is no number, or effects are unknown or
        need a schema.
    """
    check_choice("effects", effects, _EFFECTS)
    if isinstance(dim, Schema):
        if not isinstance(dim.bounds, Numeric):
            raise ValueError(
                f"Expected a schema whose target is a number, got the target {dim.target!r} "
                f"with bounds {dim.bounds!r}."
            )
        return dim.num_features, dim
    check_integer("dim", dim, 1)
    if effects != "all":
        raise ValueError(f"Expected a schema with effects={effects!r}, got dim={dim}.")
    return dim, None


def fit_table(
    strategy: LdpStrategy[Any],
    schema: Schema,
    fit: Callable[[], Generator[Ask, Any, Any]],
    mechanism: Mechanism,
    *,
    epsilon: float,
    samples_per_user: int,
    effects: str,
) -> Protocol:
    """Refuse, standardise, fit, judge the fit, and return it in units of the schema's features.

    Parameters
    ----------
    strategy : LdpStrategy
        Whose users are asked.
    schema : Schema
        What is publicly known about the table; what is not is estimated.
    fit : callable
        Returns the protocol of a fit that expects standardised columns.
    mechanism : callable
        From a number of coordinates and a radius to the mechanism for vectors.
    epsilon : float
        Privacy parameter of each user's one report.
    samples_per_user : int
        Typical number of a user's rows.
    effects : str
        ``"all"``, or ``"within"`` for slopes inside users.

    Raises
    ------
    TooFewReports
        Before anybody is asked, if users are too few for a useful model.
    """
    doubts = check_enough(strategy, epsilon, schema.num_features, samples_per_user)
    estimated = yield from estimate_standardisation(
        strategy, epsilon, schema, mechanism, effects == "within"
    )
    holdout = keep_back(strategy, epsilon, level_known=effects == "within")
    found = yield from through(fit(), estimated)
    verdict = yield from through(gate(holdout, found.coef, epsilon), estimated)
    restored: LinearResult = estimated.restored(verdict.applied(found))
    return replace(restored, notes=[*doubts, *restored.notes])
