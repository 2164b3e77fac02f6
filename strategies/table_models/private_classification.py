"""PrivateClassification: a private classifier of a table's rows."""

import logging
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.questions import RowCount
from ldp_flower.randomizers import Estimate, ball_codebook
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Count, check_choice, check_unused

from ..forecasts.populations import features_of, rows_for, table_users
from ..forecasts.tables import TableUsers, synthetic_schema, users_of_tables
from ..runtime import Ask, Card, LdpStrategy, Protocol, Run, TooFewReports, guarantees
from ..runtime.at_node import AtNode
from ..runtime.units import contrasts
from ..subprotocols.scales import estimate_norm
from ..subprotocols.standardisation import centre_askers, estimate_centres, usual_square
from ..sums import classification as sums
from .class_descent import class_descent
from .class_holdout import ClassEvaluation, ClassHoldOut
from .enough_users import too_few_for_classes
from .fits import ClassificationFit

logger = logging.getLogger("flwr")

# Usual number of a user's rows: the middle of the logarithmic range in which the mean is estimated.
_USUAL_ROWS = 8.0
_COUNTERS = 0.03  # share of the users who report their number of rows
_DOUBTFUL_SHARE = 0.06  # standard error of a share above which the result has a note
# Number of standard errors by which a model has to rank better than chance. It was chosen on 65
# tables (simulations/studies/unseen_tables). There 0 left AUC below .45 in up to 4.6 % of runs, .75
# in 1.5 % and 1 in .8 %; 2 lost another .02 to .04 of the mean AUC.
_RANKING_Z = 1.0
_RARE, _WEAK = 0.1, 0.6  # share of a class, and AUC, below which the result has a note
_FEW_ROWS = 6  # number of rows below which a user's rows show little of where its step ends
_SURE_Z = 2.0  # number of standard errors by which an estimate exceeds chance in 39 of 40 runs


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassification(AtNode, LdpStrategy[ClassificationFit]):
    """A logistic model of a table whose target is one of several classes.

    The strategy needs only the columns' bounds or categories. The result predicts classes and
    probabilities for a table, and contains the AUC on held-out users.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    schema : Schema
        The columns, the target and its :class:`~ldp_flower.Categories`. Users' targets are the
        indices of their classes, as :meth:`ldp_flower.Schema.users` makes them.
    rows_per_user : int, optional
        Typical number of a user's rows, by default estimated from some of the users.
    method : {"auto", "directions", "lengths"} (default: "auto")
        The report of a user on the change of the model that its own rows suggest: only the
        direction of the change (for many rows), or the direction with a length that is shorter the
        better the model already fits the user (for few rows). ``"auto"`` takes lengths below 6
        rows.

    Raises
    ------
    ValueError
        If the schema's target is not categories, or an argument is not allowed.

    Notes
    -----
    Some users report the columns' centres, if there are enough users to estimate these above the
    noise. Then up to 50 cohorts descend: each user reports the direction of its own logistic ridge
    step from the current model, and the model moves by the mean direction. So no scale has to be
    estimated. Hold-out cohorts estimate the share of the class, the mean and scale of the scores,
    and the ranking: how often rows of the class, and other rows, score above the mean. If both
    groups' scores are normal, this determines an AUC and the slope of the logit. Slopes are shrunk
    for the error of that estimate. If the AUC is not above chance by one standard error, the
    classes' shares are returned instead of a model. If it is above chance by less than two, a note
    says so. With more than two classes, each is fitted against all others by a separate part of the
    users. With noise at the node, all users take part in the models of all classes at once.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="classes of a table's rows",
        guarantee="pure epsilon",
        rounds="up to 57, for each of more than two classes",
        report="1-2",
        use_when="bounds and categories of a table's columns are known",
        fails_when="where sqrt(d c / n) is above 1.3 for d features and n users, c = 6.3, 1.6, "
        "0.44 at epsilon 1, 2, 4",
        page="which-method",
    )

    schema: Schema = field(kw_only=False)
    rows_per_user: Count | None = None
    method: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Schema) or not isinstance(self.schema.bounds, Categories):
            raise ValueError(
                "Expected a schema whose target is Categories([...]), got "
                f"{_target_of(self.schema)}. PrivateRegression predicts numbers."
            )
        check_choice("method", self.method, ("auto", "directions", "lengths"))
        if self.noise != "user":
            check_unused(self, 'with noise="node"', "rows_per_user", "method")
        ball_codebook(self.epsilon, self.schema.num_features, 1.0)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: of two classes, and of three."""
        table, everybody = table_users(dim)
        for values, rows, method in ((2, None, "directions"), (3, 5, "lengths")):
            users = everybody[: 600 if values == 2 else 1800]
            schema = Schema(table.columns, table.target, Categories(range(values)))
            places = np.clip(np.floor(users.targets + values / 2), 0, values - 1)
            placed = Users(users.features, places, users.offsets)
            yield cls(schema, epsilon=epsilon, rows_per_user=rows, method=method), placed

    @property
    def _places(self) -> list[int]:
        """Indices of the classes that have a model against all others."""
        return sums.modelled_classes(len(self.schema.classes))

    plans_with: ClassVar[frozenset[str]] = frozenset(
        {"rows_per_user", "num_features", "quality", "variance_between"}
    )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for two classes and numeric columns."""
        schema = synthetic_schema(features_of(setting, cls), Categories(["no", "yes"]))
        return cls(schema, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> TableUsers:
        """Return a population for plans: users with rows of synthetic tables."""
        return users_of_tables(self.schema, setting, rows_for(setting, self.rows_per_user or 1))

    def _too_few(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            return super()._too_few(num_users)  # the sums' own rule depends on the nodes, too
        features, classes = self.schema.num_features, len(self._places)
        return too_few_for_classes(num_users, self.epsilon, self.min_reports, classes, features)

    def protocol(self, run: Run) -> Protocol:
        """Fit each class against the others, and return the fits, evaluated by other users."""
        if refusal := self._too_few(run.num_users):
            raise TooFewReports(refusal)
        if self.noise != "user":
            return self._of_sums((yield from sums.classify(run, self.schema, self.delta)))
        places, epsilon = self._places, self.epsilon
        rows = yield from self._rows(run)
        askers = centre_askers(run.num_users, epsilon, self.min_reports, self.schema)
        standardisation = yield from estimate_centres(run, epsilon, self.schema, askers)
        few = rows < _FEW_ROWS
        method = ("lengths" if few else "directions") if self.method == "auto" else self.method
        logger.info(
            "Users report %s, with about %.0f rows each; %d report the columns' centres",
            *(method, rows, askers),
        )
        kept = [
            ClassHoldOut.of(run, self.schema, standardisation, place, rows, len(places))
            for place in places
        ]
        users, ridge = run.num_unasked // len(places), usual_square(self.schema) / rows
        found = []
        for held_out in kept:
            theta = yield from class_descent(run, users, held_out, ridge, method == "lengths")
            found.append((yield from held_out.evaluate(theta)))
        score, error = _score(found)
        notes = _of_ranking(score, error, "held-out", "More users or a larger epsilon")
        if score - 0.5 <= _RANKING_Z * error:
            found, method = [each.without_slopes() for each in found], "shares"
            score, error = 0.5, 0.0
        if (present := float(np.mean([each.present for each in found]))) < 1:
            notes.append(
                f"About {100 * (1 - present):.0f} % of the people have no row with a target: the "
                "model is of the others."
            )
        notes += _of_shares(self.schema, found)
        coef = np.array([each.logits() for each in found])
        coef[:, 0] -= coef @ standardisation.means[:-1]  # slopes are now for uncentred features
        coef = contrasts(self.schema, coef)
        shares = np.array([each.share for each in found])
        errors = np.array([each.share_std_error for each in found])
        if len(places) == 1:
            coef, shares, errors = coef[0], np.append(1 - shares, shares), np.append(errors, errors)
        return ClassificationFit(
            coef=coef,
            shares=shares / shares.sum(),
            shares_std_error=errors,
            score=score,
            score_std_error=error,
            method=method,
            notes=notes,
        )

    def _of_sums(self, found: sums.Classified) -> ClassificationFit:
        """Return the result from noisy sums over nodes, whose AUC is that of all users."""
        thetas, method, score, error = found.thetas, "sums of nodes", found.auc, found.auc_error
        more = "More users per node, fewer nodes or a larger epsilon"
        notes = _of_ranking(score, error, "all", more)
        if score - 0.5 <= _RANKING_Z * error:
            own, one = found.shares[self._places], np.eye(1, thetas.shape[1])
            thetas, method = np.log(own / (1 - own))[:, None] * one, "shares"
            score, error = 0.5, 0.0
        coef = contrasts(self.schema, thetas)
        return ClassificationFit(
            coef=coef[0] if len(coef) == 1 else coef,
            shares=found.shares / found.shares.sum(),
            shares_std_error=found.share_errors,
            score=score,
            score_std_error=error,
            method=method,
            notes=notes,
        )

    def _rows(self, run: Run) -> Generator[Ask, Estimate, float]:
        """Return the typical number of a user's rows: as declared, or as some users report."""
        if self.rows_per_user is not None:
            return float(self.rows_per_user)
        size = max(math.ceil(_COUNTERS * run.num_users), self.min_reports)
        (cohort,) = run.cohorts([size])
        rows = yield from estimate_norm(cohort, self.epsilon, RowCount, _USUAL_ROWS)
        return max(1.0, rows)


def _of_ranking(score: float, error: float, judges: str, more: str) -> list[str]:
    """Return a note, in a list, if the model does not surely rank better than chance.

    ``score`` is its AUC on the users whom ``judges`` names, and ``more`` says what would show it.
    """
    if score - 0.5 >= _SURE_Z * error and score - 0.5 > _RANKING_Z * error:
        return []
    auc = f"(AUC {score:.2f} on {judges} users, standard error {error:.2f})"
    if score - 0.5 > _RANKING_Z * error:
        return [f"The model may rank no better than chance {auc}. {more} would show."]
    return [
        "Returned the classes' shares, the same for all rows: the model did not surely rank better "
        f"than chance {auc}. {more} would be needed."
    ]


def _of_shares(schema: Schema, found: list[ClassEvaluation]) -> list[str]:
    """Return a note, in a list, if shares are imprecise or a class is rare or perhaps empty."""
    error = max(each.share_std_error for each in found)
    if error > _DOUBTFUL_SHARE:
        return [
            f"Shares are known within {100 * error:.0f} percentage points (one standard error), "
            "and so are probabilities: more users or a larger epsilon would show more."
        ]
    shares = [each.share for each in found]
    both = shares if len(found) > 1 else [1 - shares[0], shares[0]]
    rare = [name for name, each in zip(schema.classes, both, strict=True) if each < _SURE_Z * error]
    if not rare:
        least = [each - _SURE_Z * error for each in both]
        scarce = [name for name, each in zip(schema.classes, least, strict=True) if each < _RARE]
        vague = any(each.ranked.auc - _SURE_Z * each.ranked.std_error < _WEAK for each in found)
        if not (scarce and vague):
            return []
        return [
            f"Rare: {', '.join(map(repr, scarce))}, perhaps of less than {100 * _RARE:.0f} % of "
            "the rows. Few people show what distinguishes such a class, and the model may hardly "
            "do so."
        ]
    return [
        f"Perhaps no row is of class {' or '.join(map(repr, rare))}: shares are known within "
        f"{100 * error:.1f} percentage points (one standard error). What is said of it may be "
        "noise."
    ]


def _score(found: list[ClassEvaluation]) -> tuple[float, float]:
    """Return the mean AUC, weighted by the classes' shares, and its standard error.

    The AUC of a rare class is imprecise, but has a small weight.
    """
    shares = np.array([each.share for each in found])
    aucs = np.array([[each.ranked.auc, each.ranked.std_error] for each in found])
    auc, *_ = shares @ aucs / shares.sum()
    return float(auc), float(np.linalg.norm(shares * aucs[:, 1]) / shares.sum())


def _target_of(schema: object) -> str:
    if isinstance(schema, Schema):
        return f"the target {schema.target!r} with bounds {schema.bounds!r}"
    return repr(schema)
