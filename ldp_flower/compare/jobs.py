"""How an app is compared: the settings, and what each method does with the app."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import Any

from flwr.clientapp import ClientApp

from ..accounting import flower_epsilon, gaussian_noise_multiplier
from ..guarantee.training import flattened, parameters_of
from ..strategies import LdpFedAvg
from ..validation import check_integer, check_optional
from . import methods
from .methods import Guarantee, Outcome, Training
from .nodes import App, AppNodes

#: Makes the app of DP-SGD from epsilon, delta and the number of rounds that a node trains in.
MakeDpSgd = Callable[[float, float, int], ClientApp]

_ROUNDS = 20


@dataclass(frozen=True)
class Plan:
    """All settings of a comparison but the app; arguments of :func:`compare`."""

    num_nodes: int
    rounds: int | None = None
    delta: float = 1e-5
    clip: float | None = None
    strategy: Callable[..., LdpFedAvg] = LdpFedAvg
    dp_sgd: MakeDpSgd | None = None
    metric: str | None = None

    def __post_init__(self) -> None:
        check_integer("num_nodes", self.num_nodes, 1)
        if self.rounds is not None:
            check_integer("rounds", self.rounds, 1)
        check_optional(self, "clip")
        if not 0 < self.delta < 1 / self.num_nodes:
            raise ValueError(
                f"Expected 0 < delta < 1 / num_nodes = {1 / self.num_nodes:g}, got {self.delta}."
            )

    @property
    def rounds_of_flower(self) -> int:
        """Number of rounds of all methods but LdpFedAvg, which has a rule."""
        return min(self.rounds or _ROUNDS, self.num_nodes)

    def settings(self, method: str, epsilon: float) -> dict[str, Any]:
        """Return what a method's result depends on."""
        if method == "LdpFedAvg":
            chosen = self.strategy(epsilon=epsilon)
            own = {field.name: _shown(getattr(chosen, field.name)) for field in fields(chosen)}
            return {"rounds": self.rounds, **own}
        return {"rounds": self.rounds_of_flower, "clip": self.clip, "delta": self.delta}


def _shown(value: object) -> str:
    """Return a text of a setting that is the same in every process."""
    return str(getattr(value, "__qualname__", None) or repr(value))


class Job:
    """A method's run on an app, at a seed."""

    def __init__(self, app: App, plan: Plan, seed: int, clip: Callable[[int], float]) -> None:
        self.app, self.plan, self.seed, self.clip = app, plan, seed, clip
        self.initial = flattened(parameters_of(app.initial_arrays))
        self.nodes = AppNodes(app, plan.num_nodes)
        self.size = sum(array.nbytes for array in parameters_of(app.initial_arrays).values())

    def training(self, everybody: bool) -> Training:
        """Return the training as Flower's methods see it."""
        plan = self.plan
        return Training(
            self.nodes,
            self.initial,
            plan.rounds_of_flower,
            lambda noise: self.clip(self.seed),
            plan.delta,
            everybody,
            self.seed,
        )

    def outcome(self, training: Training, trained: methods.Trained) -> Outcome:
        """Return what one of Flower's methods made of it: a node sends the whole model."""
        model, guarantee = trained
        return Outcome(model, guarantee, training.rounds, self.size * training.answers)


def _untrained(job: Job, epsilon: float) -> Outcome:
    return Outcome(job.initial, Guarantee(trusted="nobody", epsilon=0.0), 0, 0)


def _fedavg(job: Job, epsilon: float) -> Outcome:
    training = job.training(everybody=True)
    return job.outcome(training, methods.fedavg(training))


def _dp_fedavg(job: Job, epsilon: float) -> Outcome:
    training = job.training(everybody=True)
    outcome = job.outcome(training, methods.dp_fedavg(training, epsilon))
    return replace(outcome, notes=_as_flower_counts(training, epsilon))


def _as_flower_counts(training: Training, epsilon: float) -> str:
    """Return what Flower's own accountant states for the noise; nothing without dp-accounting."""
    if find_spec("dp_accounting") is None:
        return ""
    noise = gaussian_noise_multiplier(epsilon, training.delta, training.answers)
    stated = flower_epsilon(noise, training.delta, training.answers, training.nodes.num_nodes)
    return (
        f"Flower's RdpAccountant states epsilon {stated:.3g} for the same noise, where a node is "
        "added or removed and not replaced."
    )


def _local_dp(nominal: bool) -> Callable[[Job, float], Outcome]:
    def run(job: Job, epsilon: float) -> Outcome:
        training = job.training(everybody=False)
        return job.outcome(training, methods.local_dp(training, epsilon, nominal))

    return run


def _dp_sgd(job: Job, epsilon: float) -> Outcome:
    assert job.plan.dp_sgd is not None
    training, delta = job.training(everybody=True), job.plan.delta
    job.app = replace(job.app, client_app=job.plan.dp_sgd(epsilon, delta, training.answers))
    job.nodes = AppNodes(job.app, job.plan.num_nodes)
    training = job.training(everybody=True)
    model, _ = methods.fedavg(training)
    return job.outcome(training, (model, Guarantee("record", "nobody", epsilon, delta)))


def _ldp_fedavg(job: Job, epsilon: float) -> Outcome:
    app = job.app
    strategy = replace(
        job.plan.strategy(epsilon=epsilon),
        arrayrecord_key=app.arrays_key,
        configrecord_key=app.config_key,
    )
    return methods.ldp_fedavg(
        strategy,
        job.nodes.counted(),
        app.initial_arrays,
        job.plan.num_nodes,
        num_rounds=job.plan.rounds or 0,
        train_config=app.train_config,
        run_config=app.run_config,
        seed=job.seed,
    )


#: What is run, by name, and whether it has an epsilon.
METHODS: dict[str, tuple[Callable[[Job, float], Outcome], bool]] = {
    "untrained": (_untrained, False),
    "FedAvg": (_fedavg, False),
    "DP-FedAvg": (_dp_fedavg, True),
    "LocalDpMod, nominal": (_local_dp(nominal=True), True),
    "LocalDpMod, calibrated": (_local_dp(nominal=False), True),
    "DP-SGD": (_dp_sgd, True),
    "LdpFedAvg": (_ldp_fedavg, True),
}
