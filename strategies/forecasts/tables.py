"""Synthetic tables whose columns resemble real ones in the properties that models depend on.

The assumptions come from 25 real tables and were tested on 25 others, see
``simulations/studies/planning``. The k-th principal axis of a table's columns has a variance in
proportion to 1 / k. Slopes are a little larger along wide axes. Numeric columns have a standard
deviation of about a seventh of their bounds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.validation import Floats

from .populations import USUAL_R2, Drawn, Rng, SyntheticPopulation, alike_within, offsets_of

#: For a numeric column, and for the target: the standard deviation, the standard deviation of its
#: logarithm between tables, and the largest distance of the mean from the middle. The first and the
#: last are in halves of the bounds' distance.
NUMBERS, TARGETS = (0.275, 0.35, 0.65), (0.25, 0.35, 0.35)
MAX_BETWEEN = 0.8  # largest share of the variance between users, if none is given
#: Range of the power of an axis's variance that slopes are in proportion to, for numeric targets
#: and for classes. It is lower for classes, since rare categories predict classes better.
ALONG, ALONG_CLASSES = (-0.25, 0.75), (-1.0, 0.5)
SHARES = 0.05, 0.45  # range of the share of the rarer of two classes
#: The probabilities of a column's categories are Dirichlet with this sum of parameters: their
#: indicators then have 3 / 4 of the variance of equally frequent ones.
CONCENTRATION = 3.0
_HELD_OUT = 3000  # number of rows of held-out users; there are at least 300 such users
_TINY = 1e-9  # variance below which an axis is left out
_BISECTIONS = 12  # number of bisections for the AUC of classes

USUAL_AUC = 0.8  # default AUC without privacy, which a plan states
_TABLES = (
    "Columns of numbers have standard deviations of a tenth to a fifth of their bounds and go "
    "together: the k-th of their principal axes has a variance in proportion to 1 / k."
)


@dataclass(frozen=True, kw_only=True)
class TableUsers(SyntheticPopulation):
    """Users with rows of a synthetic table, on whom plans simulate models of tables.

    Every draw makes another table.
    """

    schema: Schema  # schema of the table, with a target
    quality: float  # R2 or AUC of the best linear model
    variance_between: float | None  # as in Setting; if None, it is drawn for every table

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw a table, see :meth:`SyntheticPopulation.draw`.

        The error of a model is its loss of R2 or AUC against the best model.
        """
        between = self.variance_between
        between = rng.uniform(0, MAX_BETWEEN) if between is None else between
        held_out = max(300, round(_HELD_OUT / min(self.rows, 100)))
        drawn = num_users // (1 + stand_in)
        offsets = offsets_of(self.rows, drawn + held_out, rng)
        features = self.schema.features(self._columns(offsets, between, rng))
        rest = alike_within(offsets, max(len(self.schema.classes), 1), between, rng)
        cut, offsets = int(offsets[drawn]), offsets[: drawn + 1]
        if stand_in:
            features = np.concatenate([features[:cut], features])
            rest = np.concatenate([-rest[:cut], rest])
            offsets = np.append(offsets, cut + offsets[1:])
            cut *= 2
        along = ALONG_CLASSES if self.schema.classes else ALONG
        explained = _explained(features, rest.shape[1], along, rng)
        make = self._classes if self.schema.classes else self._numbers
        targets = make(explained, rest, rng)
        users = Users(features[:cut], targets[:cut], offsets)
        judge = _lost_auc if self.schema.classes else _lost_r2
        return Drawn(users, judge(features[cut:], targets[cut:], explained[cut:]))

    def _columns(
        self, offsets: NDArray[np.int64], between: float, rng: Rng
    ) -> dict[str, NDArray[Any]]:
        kinds = self.schema.columns
        width = NUMBERS[0] * math.exp(NUMBERS[1] * rng.standard_normal())
        axes = np.linalg.qr(rng.standard_normal((len(kinds), len(kinds))))[0]
        variances = 1 / np.arange(1, len(kinds) + 1)
        variances *= len(kinds) / variances.sum()
        latent = alike_within(offsets, len(kinds), between, rng) * np.sqrt(variances) @ axes.T
        table: dict[str, NDArray[Any]] = {}
        for (name, kind), column in zip(kinds.items(), latent.T, strict=True):
            if isinstance(kind, Numeric):
                centre = rng.uniform(-NUMBERS[2], NUMBERS[2])
                table[name] = _within(kind, centre, width, column)
            else:
                shares = rng.dirichlet(np.full(kind.width, CONCENTRATION / kind.width))
                levels = ndtr(column / math.sqrt(float(np.mean(column**2))))
                place = np.searchsorted(np.cumsum(shares)[:-1], levels)
                table[name] = np.array(kind.declared, dtype=object)[place]
        return table

    def _numbers(self, explained: Floats, rest: Floats, rng: Rng) -> Floats:
        assert isinstance(self.schema.bounds, Numeric) and self.schema.target is not None
        mixed = math.sqrt(self.quality) * explained + math.sqrt(1 - self.quality) * rest
        size = TARGETS[0] * math.exp(TARGETS[1] * rng.standard_normal())
        centre = rng.uniform(-TARGETS[2], TARGETS[2])
        target = _within(self.schema.bounds, centre, size, mixed[:, 0])
        return self.schema.targets({self.schema.target: target})

    def _classes(self, explained: Floats, rest: Floats, rng: Rng) -> Floats:
        """Return classes drawn from a mixture of scores and noise.

        The share of the scores is chosen so that their AUC is ``quality``.
        """
        number = explained.shape[1]
        rare = rng.uniform(*SHARES)
        shares = rng.dirichlet(np.full(number, CONCENTRATION))

        def drawn(share: float) -> Floats:
            mixed = math.sqrt(share) * explained + math.sqrt(1 - share) * rest
            if number == 2:
                return np.asarray(mixed[:, 1] > np.quantile(mixed[:, 1], 1 - rare), np.float64)
            return np.asarray(np.argmax(mixed + np.log(shares), axis=1), np.float64)

        few, low, high = slice(-_HELD_OUT, None), 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            found = mean_auc(drawn(middle)[few], explained[few])
            low, high = (middle, high) if found < self.quality else (low, middle)
        return drawn((low + high) / 2)


def users_of_tables(schema: Schema, setting: Setting, rows: float, **others: Any) -> TableUsers:
    """Return the distribution of the tables on which a plan with this setting simulates models.

    Raise ValueError if there are classes and the setting's quality, an AUC, is below .5.
    """
    name, usual = ("AUC", USUAL_AUC) if schema.classes else ("R2", USUAL_R2)
    quality = usual if setting.quality is None else setting.quality
    if schema.classes and quality < 0.5:
        raise ValueError(f"Expected 0.5 <= quality <= 1, an AUC, got {quality}.")
    between = setting.variance_between
    share = f"0 to {MAX_BETWEEN:.0%}" if between is None else f"{between:.0%}"
    assumes = [
        f"Without privacy the same model has {'an AUC' if schema.classes else 'an R2'} of "
        f"{quality:g}.",
        _TABLES,
        f"Of a column's variance, and of the residuals', {share} is between users.",
    ]
    if len(schema.classes) == 2:
        assumes.append("The rarer class has 5 to 45 % of the rows.")
    return TableUsers(
        error=f"{name} lost",
        schema=schema,
        dim=schema.num_features,
        rows=rows,
        quality=quality,
        variance_between=between,
        useless=quality - 0.5 if schema.classes else quality,
        assumes=tuple(assumes),
        **others,
    )


def synthetic_schema(num_features: int, bounds: Numeric | Categories) -> Schema:
    """Return the schema of a plan without a table: numbers in [-1, 1], a target in ``bounds``."""
    columns = {f"x{place}": Numeric(-1, 1) for place in range(1, num_features + 1)}
    return Schema(columns, target="y", bounds=bounds)


def _within(kind: Numeric, centre: float, size: float, normals: Floats) -> Floats:
    """Return numbers within a column's bounds, drawn from ``normals`` around its centre."""
    half = (kind.high - kind.low) / 2
    centre = (kind.low + kind.high) / 2 + half * centre if kind.centre is None else kind.centre
    size = half * size if kind.scale is None else kind.scale
    return np.asarray(np.clip(centre + size * normals, kind.low, kind.high))


def _explained(features: Floats, number: int, along: tuple[float, float], rng: Rng) -> Floats:
    """Return ``number`` random linear functions of the rows, each of mean 0 and variance 1."""
    off = features - features.mean(axis=0)
    variances, axes = np.linalg.eigh(off.T @ off / len(off))
    there = variances > _TINY
    slopes = rng.standard_normal((int(there.sum()), number))
    slopes *= variances[there, None] ** rng.uniform(*along)
    scores = off @ (axes[:, there] @ slopes)
    return np.asarray(scores / scores.std(axis=0))


def mean_auc(classes: Floats, scores: Floats) -> float:
    """Return the mean over classes of the AUC of a class's scores.

    For two classes, return the AUC of the second one. ``scores`` has one column for each class.
    """
    from scipy.stats import rankdata

    found = list[float]()
    for place in range(1 if scores.shape[1] == 2 else 0, scores.shape[1]):
        own = classes == place
        ones, others = int(own.sum()), int((~own).sum())
        if ones and others:
            ranks = rankdata(scores[:, place])[own].sum()
            found.append(float((ranks - ones * (ones + 1) / 2) / (ones * others)))
    return sum(found, 0.0) / len(found) if found else 0.5


def _lost_r2(features: Floats, targets: Floats, explained: Floats) -> Callable[[Any], float]:
    best = float(np.corrcoef(targets, explained[:, 0])[0, 1]) ** 2

    def lost(result: Any) -> float:
        off = targets - np.clip(features @ result.coef, -2, 2)  # within the bounds
        return max(best - 1 + float(np.mean(off**2)) / float(np.var(targets)), 0.0)

    return lost


def _lost_auc(features: Floats, classes: Floats, explained: Floats) -> Callable[[Any], float]:
    def lost(result: Any) -> float:
        scores = features @ np.atleast_2d(result.coef).T
        scores = np.repeat(scores, 2, axis=1) if scores.shape[1] == 1 else scores
        return max(mean_auc(classes, explained) - mean_auc(classes, scores), 0.0)

    return lost
