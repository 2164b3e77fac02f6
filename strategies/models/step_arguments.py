"""How LdpFedAvg takes steps: its arguments, what they make of a run, and when it is refused."""

import logging
import math
from dataclasses import dataclass
from typing import Literal

from flwr.serverapp.strategy import FedAvg

from ldp_flower.presentation.words import counted
from ldp_flower.validation import check_choice, check_integer, check_optional, check_unused

from ..runtime.population import fewest_users
from .fedavg_arguments import FedAvgArguments
from .schedule import REFUSE_ABOVE, WARN_ABOVE, Reporting, Schedule
from .server_optimizer import ServerOptimizer

logger = logging.getLogger("flwr")

_ONE_A_NODE = (
    "With LdpUpdateMod each node is one user. Few silos: RecordDpSgdMod (protects records) or "
    "LdpUserUpdateMod (patients)."
)


@dataclass(kw_only=True, eq=False, repr=False)
class StepArguments(FedAvgArguments):
    """Base class of :class:`~.ldp_fedavg.LdpFedAvg`: what is reported, and the steps that follow.

    Other parameters are those of :class:`~.fedavg_arguments.FedAvgArguments`.

    Parameters
    ----------
    model : {"linear", "net"} (default: "linear")
        What the defaults are for: a linear or softmax model on rows of length about 1
        (with a bias feature on the same scale), or a neural net.
    clip : float, optional
        Largest length of an update, longer ones are shortened. By default updates are normalised,
        which needs about 3 or more records a node; with one record a node take 0.5.
    num_codewords : int, optional
        Size of a codebook, by default as of :func:`~ldp_flower.randomizers.ball_codebook`.
    path_length : float, optional
        Sum of the step lengths, which are then taken as planned. By default they are
        fitted to the app as it trains (see Notes).
    learning_rate : float, optional
        The first step's multiple of the mean update, instead of a path length; steps are
        not fitted then either.
    decay : bool, optional
        Whether steps, fitted or not, decrease linearly to 0; by default for nets only.
    momentum : float (default: 0.0)
        Share of the previous direction in the next one, in [0, 1).
    optimizer : FedAdam, FedYogi, FedAdagrad or FedAvgM, optional
        A strategy object of Flower's, whose arithmetic takes the steps: the mean update is
        in the place of what Flower takes for it, the average of models less the last model.
        Path length, learning rate, decay and momentum are the optimiser's own then. It is
        post-processing: it costs no privacy.
    sparsity : int, optional
        Number of parameters that may differ from zero (hard thresholding).
    threshold : {"final", "each"} (default: "final")
        Whether to threshold the trained model or the model after each round
        (iterative hard thresholding).
    force : bool (default: False)
        Start even if q is above 2.
    """

    model: Literal["linear", "net"] = "linear"
    clip: float | None = None
    num_codewords: int | None = None
    path_length: float | None = None
    learning_rate: float | None = None
    decay: bool | None = None
    momentum: float = 0.0
    optimizer: FedAvg | ServerOptimizer | None = None
    sparsity: int | None = None
    threshold: Literal["final", "each"] = "final"
    force: bool = False

    def __post_init__(self, *refused: object) -> None:
        super().__post_init__(*refused)
        check_choice("model", self.model, ("linear", "net"))
        check_choice("threshold", self.threshold, ("final", "each"))
        check_optional(self, "clip", "path_length", "learning_rate")
        if self.sparsity is not None:
            check_integer("sparsity", self.sparsity, 1)
        else:
            check_unused(self, "without sparsity", "threshold")
        if self.path_length is not None and self.learning_rate is not None:
            raise ValueError("Expected path_length or learning_rate, got both.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"Expected 0 <= momentum < 1, got {self.momentum}.")
        if self.optimizer is not None:
            names = ("path_length", "learning_rate", "decay", "momentum")
            check_unused(self, "with an optimizer", *names)
            self.optimizer = ServerOptimizer.of(self.optimizer)
        self._reporting(1)  # refuses a bad epsilon now

    def _reporting(self, dim: int) -> Reporting:
        answers = self.answers_per_user
        epsilon = self.epsilon / answers
        while sum([epsilon] * answers) > self.epsilon:
            epsilon = math.nextafter(epsilon, 0.0)
        return Reporting.of(epsilon, dim, self.clip, self.num_codewords)

    def _schedule(self, reporting: Reporting, num_users: int, num_rounds: int) -> Schedule:
        net = self.model == "net"
        return Schedule.of(
            reporting,
            self._num_asked(num_users, num_rounds),
            self.answers_per_user,
            net,
            num_rounds,
            self.path_length,
            self.learning_rate,
            net if self.decay is None else self.decay,
        )

    def _refused(self, reporting: Reporting, num_users: int, num_rounds: int) -> str:
        """Say why so many users are not enough, and how many are; nothing if they are."""
        reasons = self._reasons(reporting, num_users, num_rounds)
        if not reasons:
            return ""

        def refused(users: int, rounds: int = num_rounds) -> bool:
            return bool(self._reasons(reporting, users, rounds))

        fewer = next((r for r in range(num_rounds - 1, 0, -1) if not refused(num_users, r)), None)
        way = "" if fewer is None else f" Or take num_rounds={fewer}."
        needed = fewest_users(refused, num_users)
        enough = "More users" if needed is None else f"At least {needed:,} users"
        return (
            f"{enough} are needed for "
            f"{counted(reporting.dim, 'parameter')}, got {num_users:,}: {'; '.join(reasons)}."
            f"{way} {_ONE_A_NODE}"
        )

    def _reasons(self, reporting: Reporting, num_users: int, num_rounds: int) -> list[str]:
        """Say all that makes a run of so many users useless."""
        schedule = self._schedule(reporting, max(num_users, 1), num_rounds)
        reasons = []
        asked, needed = min(schedule.sizes), max(self.min_reports, self.min_train_nodes or 0)
        if min(asked, num_users) < needed:
            reasons.append(f"a round would ask {min(asked, num_users)} of them, and needs {needed}")
        if schedule.noise_to_signal > REFUSE_ABOVE and not self.force:
            good = self._for_a_good_model(reporting, num_users, num_rounds)
            reasons.append(
                f"the noise would drown the model (q > {REFUSE_ABOVE:g}): "
                f"{schedule.told(reporting)}, from {good} on noise is not what limits it (q < "
                f"{WARN_ABOVE:g}); a larger epsilon or fewer parameters (trainable=) take fewer, "
                "force=True tries anyway"
            )
        asked = self._num_asked(num_users, num_rounds)
        if reasons and asked < num_users:
            reasons.append(f"fraction_train asks {asked:,} of them")
        return reasons

    def _for_a_good_model(self, reporting: Reporting, num_users: int, num_rounds: int) -> str:
        """Say with how many users the noise to signal is below what is warned of."""
        needed = fewest_users(
            lambda users: self._schedule(reporting, users, num_rounds).noise_to_signal > WARN_ABOVE,
            num_users,
        )
        return "more users" if needed is None else f"some {needed:,} users"

    def _judged(
        self, schedule: Schedule, reporting: Reporting, num_users: int, num_rounds: int
    ) -> list[str]:
        """Log the rule of thumb, and warn; return notes for the result."""
        text = schedule.told(reporting)
        logger.info("%s", text)
        if schedule.noise_to_signal <= WARN_ABOVE:
            return []
        wanted = self._for_a_good_model(reporting, num_users, num_rounds)
        note = f"{text}: above {WARN_ABOVE}, expect a poor model; {wanted} would be enough."
        logger.warning("%s", note)
        return [note]
