"""What to expect of models of tables, from public numbers: the plans of the two protocols."""

import math
from typing import Any

from ldp_flower.planning import Expectation, Setting
from ldp_flower.randomizers import ball_codebook
from ldp_flower.schema import Schema

from ..forecasts.directions import auc_lost, r2_lost
from ..forecasts.planned import rows_of
from ..runtime.base import LdpStrategy
from ..subprotocols.norm import enough_for_norm
from ..subprotocols.squared_errors import number_randomizer
from .centres import num_askers
from .class_judges import num_judges, num_present, score_error
from .class_walk import num_steps as class_steps
from .enough import doubts
from .judges import LEVEL, MOMENTS, SCORE, SIZES
from .judges import num_present as num_level_present
from .ridge_walk import num_steps as ridge_steps
from .ridge_walk import row_length

_LOW, _HIGH = 0.1, 0.9  # shares of the runs that an expectation's range leaves out below, above
_USUAL_R2, _USUAL_AUC = 0.5, 0.8
_TABLES = (
    "Bounds are four to thirteen standard deviations of their columns wide, columns are moderately "
    "correlated, and a third of a column's variance is between users.",
    "Real tables differ more: on eleven of them the loss was a quarter to three times the expected "
    "one.",
)


def expected_regression(
    strategy: LdpStrategy[Any],
    setting: Setting,
    schema: Schema,
    declared_rows: int | None,
    method: str,
) -> Expectation:
    """Return the R2 that a regression is expected to lose.

    Parameters
    ----------
    strategy : LdpStrategy
        With its epsilon and ``min_reports``.
    setting : Setting
        Public numbers.
    schema : Schema
        Of the table.
    declared_rows : int or None
        Typical number of a user's rows, as the strategy was told.
    method : str
        ``"walk"`` or ``"two legs"``.
    """
    epsilon, users, dim = strategy.epsilon, setting.num_users, schema.num_features
    rows = rows_of(setting, declared_rows or 1)
    r2 = _USUAL_R2 if setting.quality is None else setting.quality
    mechanism, width = ball_codebook(epsilon, dim), math.sqrt(dim) * row_length(schema)

    def lost(level: float) -> float:
        return r2_lost(users, width, rows, mechanism.variance, r2, level)

    return Expectation(
        error="R2 lost",
        value=lost(0.5),
        low=lost(_LOW),
        high=lost(_HIGH),
        rounds=_regression_rounds(strategy, users, schema, declared_rows, method),
        randomizers=(
            *(mechanism, ball_codebook(epsilon, 5), ball_codebook(epsilon, 2)),
            number_randomizer(epsilon, 2.0),
        ),
        assumes=(f"Without privacy the same model has an R2 of {r2:g}.", *_TABLES),
        notes=tuple(doubts(users, epsilon)),
    )


def expected_classification(
    strategy: LdpStrategy[Any],
    setting: Setting,
    schema: Schema,
    declared_rows: int | None,
    classes: int,
) -> Expectation:
    """Return the AUC that a classifier is expected to lose.

    Parameters are those of :func:`expected_regression`, but ``classes``: how many are told from
    all others, each by its share of the users.

    Raises
    ------
    ValueError
        If the setting's quality is no AUC.
    """
    auc = _USUAL_AUC if setting.quality is None else setting.quality
    if auc < 0.5:
        raise ValueError(f"Expected 0.5 <= quality <= 1, an AUC, got {auc}.")
    epsilon, dim = strategy.epsilon, schema.num_features
    users, rows = setting.num_users / classes, rows_of(setting, declared_rows or 1)
    mechanism, width = ball_codebook(epsilon, dim), math.sqrt(dim) * row_length(schema)
    judges = [max(size, strategy.min_reports) for size in num_judges(users, epsilon, rows)]
    error = score_error(judges[-1], epsilon, rows)

    def lost(level: float) -> float:
        return auc_lost(users, width, rows, mechanism.variance, auc, error, level)

    askers = num_askers(setting.num_users, epsilon, strategy.min_reports, schema)
    steps = class_steps(int(users - askers / classes - sum(judges)), strategy.min_reports)
    each = steps + len(judges) + (num_present(judges[0], strategy.min_reports) > 0)
    notes: tuple[str, ...] = ()
    if lost(_HIGH) >= auc - 0.5:
        notes = (
            "Judges may see no more than chance in the model; then the classes' shares are "
            "returned, the same for everybody.",
        )
    return Expectation(
        error="AUC lost",
        value=lost(0.5),
        low=lost(_LOW),
        high=lost(_HIGH),
        rounds=classes * each + (askers > 0) + (declared_rows is None),
        randomizers=(mechanism, number_randomizer(epsilon, 1.0)),
        assumes=(f"Without privacy the same model has an AUC of {auc:g}.", *_TABLES),
        notes=notes,
    )


def _regression_rounds(
    strategy: LdpStrategy[Any], users: int, schema: Schema, declared_rows: int | None, method: str
) -> int:
    """Return how often the server asks, where all asked answer."""
    fewest = strategy.min_reports
    shares = [LEVEL, SIZES, MOMENTS, SCORE] + ([] if declared_rows else [LEVEL / 2])
    walkers = users - sum(max(math.ceil(share * users), fewest) for share in shares)
    levelers = max(math.ceil(LEVEL * users), fewest)
    asked = len(shares) + (num_level_present(levelers, fewest) > 0)
    if method == "walk":
        return asked + ridge_steps(walkers, fewest)
    centres, scales = (~schema.centred).any(), (~schema.scaled).any()
    columns = (centres or scales) + 3 * centres + scales
    second = int(0.12 * users) - enough_for_norm(strategy.epsilon)
    legs = ridge_steps(int(0.3 * users), fewest) + ridge_steps(max(second, fewest), fewest)
    return int(asked + 2 + columns + legs)
