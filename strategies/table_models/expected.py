"""What to expect of models of tables, from public numbers: the plans of the two protocols."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.planning import Expectation, Setting
from ldp_flower.randomizers import ball_codebook
from ldp_flower.schema import Schema

from ..forecasts.planned import rows_of
from ..forecasts.tables.made_up_tables import Columns
from ..forecasts.tables.monotone import Falling, users_at_one
from ..runtime.base import LdpStrategy
from ..subprotocols.norm import enough_for_norm
from ..subprotocols.squared_errors import number_randomizer
from .centres import num_askers
from .class_judges import num_judges, num_present
from .class_walk import num_steps as class_steps
from .enough import doubts
from .judges import cohort_size, held_out
from .legs import FIRST, FOR_COLUMNS
from .rehearsed_classes import class_losses
from .rehearsed_regression import regression_losses
from .ridge_walk import num_steps as ridge_steps

Floats = NDArray[np.float64]

# Real tables differ more than made-up ones: by how much farther their runs lie apart, of
# logarithms, from expected errors; chosen so that it held on half of the real tables.
_WIDER_R2, _WIDER_AUC = 1.2, 1.75
_USUAL_R2, _USUAL_AUC = 0.5, 0.8
_TABLES = (
    "Columns of numbers have standard deviations of a tenth to a fifth of their bounds and go "
    "together: the k-th of their principal axes has a variance in proportion to 1 / k.",
    "Of a column's variance, none to four fifths is between users.",
)
_REAL_R2 = (
    "On real tables six runs of seven lay in the range, and as many medians within a factor 2."
)
_REAL_AUC = (
    "The rarer class has 5 to 45 % of the rows.",
    "On real tables three runs of four lay in the range, and as many medians within a factor 2 of "
    "the plan.",
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
    columns = Columns.of(schema)
    falling = _of_regressions(columns, r2)
    low, value, high = falling.at(rows, users_at_one(users, columns.features, epsilon)).tolist()
    return Expectation(
        error="R2 lost",
        value=value,
        low=low,
        high=high,
        rounds=_regression_rounds(strategy, users, schema, method),
        randomizers=(
            *(ball_codebook(epsilon, size) for size in (dim, 5, 2)),
            number_randomizer(epsilon, 2.0),
        ),
        assumes=(f"Without privacy the same model has an R2 of {r2:g}.", *_TABLES, _REAL_R2),
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
    judges = [max(size, strategy.min_reports) for size in num_judges(users, epsilon, rows)]
    columns = Columns.of(schema)
    falling = _of_classes(columns, auc)
    found = falling.at(rows, users_at_one(users, columns.features, epsilon))
    low, value, high = np.minimum(found, auc - 0.5).tolist()
    askers = num_askers(setting.num_users, epsilon, strategy.min_reports, schema)
    steps = class_steps(int(users - askers / classes - sum(judges)), strategy.min_reports)
    each = steps + len(judges) + (num_present(judges[0], strategy.min_reports) > 0)
    doubtful = high >= auc - 0.5
    return Expectation(
        error="AUC lost",
        value=value,
        low=low,
        high=high,
        rounds=classes * each + (askers > 0) + (declared_rows is None),
        randomizers=(ball_codebook(epsilon, dim), number_randomizer(epsilon, 1.0)),
        assumes=(f"Without privacy the same model has an AUC of {auc:g}.", *_TABLES, *_REAL_AUC),
        notes=("The model may rank no better than chance.",) if doubtful else (),
    )


@lru_cache(maxsize=256)
def _of_regressions(columns: Columns, r2: float) -> Falling:
    return Falling(lambda rows, users: regression_losses(columns, rows, r2, users), _WIDER_R2)


@lru_cache(maxsize=256)
def _of_classes(columns: Columns, auc: float) -> Falling:
    return Falling(lambda rows, users: class_losses(columns, rows, auc, users), _WIDER_AUC)


def _regression_rounds(strategy: LdpStrategy[Any], users: int, schema: Schema, method: str) -> int:
    """Return how often the server asks, where all asked answer."""
    fewest, epsilon = strategy.min_reports, strategy.epsilon
    present = cohort_size("present", users, epsilon) > fewest - 1
    asked = present + 2 + 2 + 5  # steps of level and mean; sizes, two gains, intercept, score
    if method == "walk":
        return asked + ridge_steps(int(users - held_out(users, epsilon)), fewest)
    centres, scales = (~schema.centred).any(), (~schema.scaled).any()
    columns = (centres or scales) + 3 * centres + scales
    left = (1 - FIRST - FOR_COLUMNS) * users - held_out(users, epsilon, two_stages=True)
    second = int(left) - enough_for_norm(epsilon)
    legs = ridge_steps(int(FIRST * users), fewest) + ridge_steps(max(second, fewest), fewest)
    return int(asked + 2 + columns + legs)
