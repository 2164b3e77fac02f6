"""Where a table's columns lie: users' mean rows, as far as they stand out of the noise."""

import math
from collections.abc import Generator

import numpy as np

from ldp_flower.guarantee.questions import ColumnMeans
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.schema import Numeric, Schema

from ..numerics.denoising import shrink
from ..runtime.exchange import Ask
from ..runtime.run import Run
from ..tables.standardisation import Standardisation

_SHARE = 0.04  # of all users
_ENOUGH = 0.1  # noise over a typical row's norm that no larger cohort is for
_AFFORDED = 1.2  # ... with which centres are estimated at all
USUAL, FARTHEST = 2.0, 4.0  # mean square of a column of numbers with bounds only


def _columns(schema: Schema, numeric: float) -> dict[int, float]:
    """Return the features whose centres are not declared, with their mean squares.

    Indicators have none: they are centred as if categories were equally likely. ``numeric`` is the
    mean square of a column of numbers.
    """
    found: dict[int, float] = {}
    for name, kind in schema.columns.items():
        if not isinstance(kind, Numeric):
            found |= dict.fromkeys(schema.places(name), (1 - 1 / kind.width) / kind.width)
        elif kind.centre is None:
            found |= dict.fromkeys(schema.places(name), numeric)
    return found


def usual_square(schema: Schema) -> float:
    """Return the usual squared norm of a row of features, given what is declared of them."""
    undeclared = _columns(schema, USUAL)
    return 1.0 + sum(undeclared.get(column, 1.0) for column in range(1, schema.num_features))


def num_askers(num_users: int, epsilon: float, min_reports: int, schema: Schema) -> int:
    """Return how many users to ask for centres: none where these would be noise."""
    wanted = num_wanted(num_users, epsilon, len(_columns(schema, FARTHEST)))
    return max(math.ceil(wanted), min_reports) if wanted else 0


def num_wanted(num_users: float, epsilon: float, columns: int) -> float:
    """Return how many users to ask for so many columns; 0 if all would be noise."""
    if not columns:
        return 0.0
    noise = columns * ball_codebook(epsilon, columns, 1.0).variance
    most = math.floor(_SHARE * num_users)
    return 0.0 if noise > _AFFORDED**2 * most else min(most, noise / _ENOUGH**2)


def estimate_centres(
    run: Run, epsilon: float, schema: Schema, askers: int
) -> Generator[Ask, Estimate, Standardisation]:
    """Ask a cohort for the means of columns whose centres are not declared.

    One report of each user, within the norm of the farthest row. What is found is drawn to
    what all columns have in common.
    """
    known = Standardisation.identity(schema.num_features)
    if not askers:
        return known
    squares = _columns(schema, FARTHEST)
    columns = np.array(list(squares), np.int64)
    mechanism = ball_codebook(epsilon, len(columns), math.sqrt(sum(squares.values())))
    question = ColumnMeans(np.zeros(len(known.means)), columns)
    (cohort,) = run.cohorts([askers])
    answer = yield known.applied(Ask(cohort, question, mechanism))
    common = float(answer.mean.mean())
    own = shrink(answer.mean - common, mechanism.variance / answer.count)
    known.means[columns] = common + own
    return known
