"""The methods: those for tables, an app made by hand, and no privacy."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from sklearn.linear_model import LogisticRegression, Ridge

from ldp_flower import simulate
from ldp_flower.compare import methods
from ldp_flower.simulation.grid import silenced
from ldp_flower.strategies import (
    LdpFedAvg,
    PrivateClassification,
    PrivateRegression,
    TooFewReports,
)

from ...baselines.federated import Problem, training_of
from ...baselines.learners import Arrays, Linear
from .data import Split

DELTA = 1e-5  # of LocalDpMod
#: Length of the coefficients that LocalDpMod's clip is told in a regression, for rows of length
#: about 1 and targets within [-2, 2]: without it most of its regressions are worse.
PATH = 2.0
OURS, NODES, NO_PRIVACY = "Private", "Private, ten nodes", "no privacy"
SHARED = "Private, ten nodes, shared noise"

_NODES = 10  # that hold the users, as many each

#: A score, and what became of the run.
Outcome = tuple[float, str]
Method = Callable[[Split, float, int], Outcome]

REFUSED, GATED, WARNED, SILENT = "refused", "constant", "warning", ""


def ours(divided: Split, epsilon: float, seed: int, noise: str = "user") -> Outcome:
    """Run PrivateRegression or PrivateClassification, knowing only the columns' bounds."""
    schema = divided.declared.schema
    if divided.declared.is_binary:
        strategy: Any = PrivateClassification(schema, epsilon=epsilon, noise=noise)
    else:
        strategy = PrivateRegression(schema, epsilon=epsilon, noise=noise)
    nodes = {"num_nodes": _NODES} if noise != "user" else {}
    try:
        result = simulate(strategy, divided.users, seed=seed, **nodes)
    except TooFewReports:
        return divided.constant, REFUSED
    rows = divided.held_out.frame
    if divided.declared.is_binary:
        score = divided.score(np.asarray(result.predict_proba(rows))[:, 1])
    else:
        score = divided.score(result.predict(rows))
    if result.method in ("constant", "shares"):
        return score, GATED
    return score, WARNED if result.notes else SILENT


# ------------------------------------------------------------------------------- by hand


def _app(divided: Split) -> Problem:
    """Return an app that somebody writes for the table: rows of length about 1, local steps."""
    declared, users = divided.declared, divided.users
    scale = math.sqrt(1 + len(declared.schema.columns))
    dim = users.num_features
    kind, rate = ("logistic", 5.0) if declared.is_binary else ("squares", 1.0)

    def score(model: Arrays) -> float:
        return divided.score_of(np.asarray(model[0][0]) / scale)

    return Problem(
        np.asarray(users.features, np.float64) / scale,
        users.targets.astype(np.int64) if declared.is_binary else users.targets,
        users.offsets,
        Linear(dim, 1, kind, rate),  # type: ignore[arg-type]
        score,
        declared.rows_per_user,
        path=None if declared.is_binary else PATH,
    )


def ldp_fedavg(divided: Split, epsilon: float, seed: int) -> Outcome:
    """Train the app with LdpUpdateMod and LdpFedAvg."""
    problem = _app(divided)
    strategy = LdpFedAvg(epsilon=epsilon, model="linear")
    initial = ArrayRecord(problem.learner.initial())
    with silenced("flwr", below=logging.ERROR):
        found = methods.train_ldp_fedavg(
            strategy, problem.app(), initial, problem.num_users, seed=seed
        )
    if found.model is None:
        return divided.constant, REFUSED
    return problem.score(problem.shaped(found.model)), WARNED if found.notes else SILENT


def local_dp(divided: Split, epsilon: float, seed: int) -> Outcome:
    """Train the app with Flower's LocalDpMod, calibrated to (epsilon, DELTA)."""
    problem = _app(divided)
    training = training_of(problem, seed, delta=DELTA, everybody=False)
    model, _ = methods.train_local_dp(training, epsilon)
    return problem.score(problem.shaped(model)), SILENT


# ---------------------------------------------------------------------------- no privacy


def no_privacy(divided: Split, epsilon: float, seed: int) -> Outcome:
    """Fit all training rows by least squares or logistic regression, hardly shrunk."""
    own = divided.training
    x = own.features[:, 1:]
    if divided.declared.is_binary:
        model = LogisticRegression(C=100.0, max_iter=500).fit(x, own.targets)
        return divided.score(model.predict_proba(divided.held_out.features[:, 1:])[:, 1]), SILENT
    fit = Ridge(alpha=1.0).fit(x, own.observed)
    return divided.score(fit.predict(divided.held_out.features[:, 1:])), SILENT


METHODS: dict[str, Method] = {
    OURS: ours,
    NODES: partial(ours, noise="node"),
    SHARED: partial(ours, noise="shared"),
    "LdpFedAvg": ldp_fedavg,
    "LocalDpMod": local_dp,
    NO_PRIVACY: no_privacy,
}
