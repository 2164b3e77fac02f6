"""Logistic regression of a table with classes from noisy sums, with its AUC."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.data.schema import Schema
from ldp_flower.questions import CellShares, ClassMoves, Question, RidgeMove
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask, Run, TooFewReports
from .budget import Budget
from .descent import LOGISTIC, STEPS, ask_centres, descend, times_too_few
from .ranking import QUESTIONS, ask_auc

# Shares of the budget: of the mean features, of the classes, of the scores.
_MEANS, _CLASSES, _SCORES = 0.1, 0.03, 0.1
_DESCENT = 1 - _MEANS - _CLASSES - _SCORES
# Standard error of the AUC beyond which a run does not start. A model is kept if its AUC exceeds .5
# by more than one error. With larger errors, nearly all runs would return the shares alone.
_MAX_AUC_ERROR = 0.1
_LEAST_CONSTANT = 0.5  # mean of a constant of 1 in rows of columns that are shortened, at least
_MIN_CLASS_SHARE = 0.01  # of a class's share, where its noise could take it to 0


@dataclass(frozen=True)
class Classified:
    """Logistic models of a table's classes, the classes' shares, and the models' mean AUC.

    There is one model of each class against all others; of two classes, one of the second.
    """

    thetas: Floats
    shares: Floats
    share_errors: Floats
    auc: float
    auc_error: float


def modelled_classes(num_classes: int) -> list[int]:
    """Return the indices of the classes that get a model: the second one of two, otherwise all."""
    return [1] if num_classes == 2 else list(range(num_classes))


def too_few(budget: Budget, dim: int, num_classes: int) -> TooFew | None:
    """Return a TooFew if users are too few to fit the models and to know their AUC, or None."""
    models = len(modelled_classes(num_classes))
    # Of classes of the same size; for several classes it is the error of a mean AUC.
    error = 2 * budget.error(budget.ball(1, 0.5, _SCORES, models)) / math.sqrt(models)
    times = max(error / _MAX_AUC_ERROR, times_too_few(budget, models * dim, _DESCENT))
    what = f"fit {models * dim} coefficients and to tell the AUC within {_MAX_AUC_ERROR:g}"
    return budget.too_few(what, math.ceil(times * budget.users))


def classify(run: Run, schema: Schema, delta: float) -> Generator[Ask, Any, Classified]:
    """Ask all users for sums, and return the logistic models of a table's classes.

    Each class has one model against all others; two classes have one model, of the second class.
    The result has shares and the AUC with their errors, too. Raise TooFewReports if the users are
    too few.
    """
    budget, dim, number = Budget.of(run, delta), schema.num_features, len(schema.classes)
    places = modelled_classes(number)
    if refusal := too_few(budget, dim, number):
        raise TooFewReports(refusal)
    run.planned_steps = STEPS + 2 + QUESTIONS * len(places)
    question = CellShares(np.array([dim]), np.array([float(number)]))
    classes: Estimate = yield budget.ask(question, budget.cells(number, _CLASSES))
    whole = max(float(classes.mean.sum()), _MIN_CLASS_SHARE)
    shares = np.clip(classes.mean / whole, _MIN_CLASS_SHARE, 1 - _MIN_CLASS_SHARE)
    errors = np.hypot(
        classes.std_error / whole, np.sqrt(shares * (1 - shares) / max(classes.count * whole, 1))
    )
    length = math.sqrt(1 + len(schema.columns))
    means = yield from ask_centres(budget, dim, length, _MEANS)
    # Rows that are long were shortened, which the mean of the constant tells.
    middle = means / max(means[0], _LEAST_CONSTANT)
    means[0] = 0.0  # the constant stays
    one = np.eye(1, dim)
    starts = np.log(shares / (1 - shares))[places, None] * one

    def moves(thetas: Floats) -> Question:
        """Return the question for the move of one model or, for several classes, of all models."""
        if number == 2:
            return RidgeMove(thetas, means, link="logistic")
        return ClassMoves(thetas, means, number)

    flat = yield from descend(budget, starts.ravel(), moves, _DESCENT, LOGISTIC)
    centred = flat.reshape(len(places), dim)
    thetas = centred - (centred @ means)[:, None] * one
    of_mean = thetas - (thetas[:, 1:] @ middle[1:] + thetas[:, 0])[:, None] * one
    share = _SCORES / len(places)
    found = []
    for place, theta in zip(places, of_mean, strict=True):
        found.append((yield from ask_auc(budget, schema, theta, place, shares, share)))
    weights = shares[places] / shares[places].sum()
    aucs, auc_errors = np.array(found).T
    error = float(np.linalg.norm(weights * auc_errors))
    return Classified(thetas, shares, errors, float(weights @ aucs), error)
