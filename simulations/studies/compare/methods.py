"""The methods that are compared, by name, each with what it promises and what it costs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg, TooFewReports

from ...baselines import flower_dp
from ...baselines.calibration import DELTA, Guarantee
from ...baselines.flower_dp import Federation, Trained
from ...baselines.local_model import mean_score
from .problems import LOCAL_STEPS, Problem

if TYPE_CHECKING:
    from .learners import Arrays

#: Up to so many users DP-FedAvg asks everybody in every round, as it should; above, each
#: once, which costs it little there and saves nineteen rounds of simulation in twenty.
_EVERYBODY = 5_000
_ONE_ROW_CLIP = 0.5  # of users with one row, whose normalised update would lose how sure it is


@dataclass(frozen=True)
class Outcome:
    """What a method reached.

    Attributes
    ----------
    score : float
        What its model is worth; NaN if it refused to train one.
    guarantee : Guarantee
        What it cost.
    rounds : int
        Messages that one run exchanges with a cohort, one after the other.
    bytes_per_user : int
        What a user sends in all, without Flower's envelopes.
    """

    score: float
    guarantee: Guarantee
    rounds: int
    bytes_per_user: int


@dataclass(frozen=True)
class Method:
    """A method, whether its result depends on an epsilon, and what it is for if not for all."""

    run: Callable[[Problem, float, int], Outcome]
    private: bool = True
    problems: tuple[str, ...] = ()

    def handles(self, problem: str) -> bool:
        """Whether it can be run on the problem of this name."""
        return not self.problems or problem in self.problems


def _federation(problem: Problem, seed: int, everybody: bool) -> Federation:
    return Federation(
        problem.train,
        problem.learner.initial(),
        problem.num_users,
        problem.rounds,
        everybody,
        problem.path,
        seed,
    )


def _judged(problem: Problem, federation: Federation, trained: Trained) -> Outcome:
    model, guarantee = trained
    size = sum(array.nbytes for array in federation.initial) * federation.answers
    return Outcome(problem.score(model), guarantee, federation.rounds, size)


def ldp_fedavg(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """LdpFedAvg and LdpUpdateMod with their defaults, one report a user."""
    federation = _federation(problem, seed, everybody=False)
    strategy = LdpFedAvg(
        epsilon=epsilon,
        model="net" if problem.is_net else "linear",
        clip=_ONE_ROW_CLIP if problem.records == 1 else None,
        path_length=problem.path,
    )
    promised = Guarantee("user", "nobody", epsilon)
    mod = LdpUpdateMod(seed=seed)
    try:
        result = federation.start(strategy, [mod], num_nodes=problem.num_users, seed=seed)
    except TooFewReports:  # q above 2, told before anybody is asked
        return Outcome(math.nan, promised, problem.rounds, 0)
    size = max(step.report_bytes for step in result.steps)
    assert result.privacy is not None and result.privacy.epsilon <= epsilon
    score = problem.score(result.arrays.to_numpy_ndarrays())
    return Outcome(score, promised, len(result.steps) - 1, size)


def protocol(name: str, *problems: str) -> Method:
    """Return a protocol of ldp-flower that is made for the problem."""

    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        score, result = problem.protocols[name](epsilon, seed)
        assert result.privacy is not None
        spent = Guarantee("user", "nobody", result.privacy.epsilon, result.privacy.delta)
        size = max(step.report_bytes for step in result.steps)
        return Outcome(score, spent, len(result.steps) - 1, size)

    return Method(run, problems=problems)


def _central(train: Callable[[Federation, float], Trained]) -> Method:
    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        federation = _federation(problem, seed, problem.num_users <= _EVERYBODY)
        return _judged(problem, federation, train(federation, epsilon))

    return Method(run)


def _local(nominal: bool) -> Method:
    def run(problem: Problem, epsilon: float, seed: int) -> Outcome:
        federation = _federation(problem, seed, everybody=False)
        return _judged(problem, federation, flower_dp.local_dp(federation, epsilon, nominal))

    return Method(run)


def dp_sgd(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """DP-SGD by Opacus in every client, which takes part once; protects records."""
    from ...baselines import dp_sgd as opacus

    learner = problem.learner
    cohort = problem.num_users // problem.rounds
    rate = opacus.rate(epsilon, LOCAL_STEPS, problem.rounds, cohort, problem.records, learner.rate)

    def train(user: int, model: "Arrays") -> "Arrays":
        x, y = problem.rows(user)
        return opacus.train(
            learner.module(model),
            learner.loss(),
            x,
            y,
            epsilon=epsilon,
            steps=LOCAL_STEPS,
            learning_rate=rate,
            seed=seed * problem.num_users + user,
        )

    federation = Federation(
        train,
        learner.initial(),
        problem.num_users,
        problem.rounds,
        everybody=False,
        seed=seed,
    )
    model, _ = flower_dp.fedavg(federation)
    guarantee = Guarantee("record", "nobody", epsilon, DELTA)
    return _judged(problem, federation, (model, guarantee))


def no_privacy(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """FedAvg as it is; every update is seen."""
    federation = _federation(problem, seed, problem.num_users <= _EVERYBODY)
    return _judged(problem, federation, flower_dp.fedavg(federation))


def alone(problem: Problem, epsilon: float, seed: int) -> Outcome:
    """No federation: the mean over users who train on their own rows."""
    score = mean_score(
        problem.train, problem.learner.initial(), problem.score, problem.num_users, seed
    )
    return Outcome(score, Guarantee("user", "nobody", 0.0), 0, 0)


METHODS: dict[str, Method] = {
    "LdpFedAvg": Method(ldp_fedavg),
    "SparseRegression": protocol("SparseRegression", "flights", "sparse regression"),
    "LDP-IHT": protocol("LDP-IHT", "flights"),
    "LocalDpMod, calibrated": _local(nominal=False),
    "LocalDpMod, nominal": _local(nominal=True),
    "DP-SGD in clients": Method(dp_sgd),
    "DP-FedAvg": _central(flower_dp.dp_fedavg),
    "DP-FedAvg, clients clip": _central(
        lambda federation, epsilon: flower_dp.dp_fedavg(federation, epsilon, clients_clip=True)
    ),
    "DP-FedAvg, adaptive": _central(flower_dp.dp_fedavg_adaptive),
    "FedAvg": Method(no_privacy, private=False),
    "local model": Method(alone, private=False),
}
