"""What a server asks of nodes that train a network which comes as data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from flwr.app import ConfigRecord

from ..randomizers.real_valued.dp_sgd import DpSgdPlan
from ..validation import check_choice, check_integer, check_positive
from .messages import FORMAT_VERSION, HASH_END, MessageError

#: Names of the records of a message and of its reply.
ARRAYS, NETWORK, METRICS = "arrays", "network", "metrics"
OPTIMIZERS = ("sgd", "adam")
_OF_PLAN = tuple(field.name for field in fields(DpSgdPlan))


@dataclass(frozen=True)
class NetworkRound:
    """One round: the network's text, the plan of all rounds, and how steps are taken.

    Attributes
    ----------
    text : str
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    optimizer : {"sgd", "adam"}
        The optimiser, which sees noisy means only.
    salt : int
        Number of the run, in ``[0, 2**63)``: a plan is paid once for each.
    number : int
        Number of the round, from 1.
    """

    text: str
    plan: DpSgdPlan
    optimizer: str
    learning_rate: float
    salt: int
    number: int

    def __post_init__(self) -> None:
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_positive("learning_rate", self.learning_rate)
        check_integer("salt", self.salt, 0, HASH_END - 1)
        check_integer("number", self.number, 1, self.plan.num_rounds)

    def to_config(self) -> ConfigRecord:
        """Encode for a Flower message."""
        own = {key: getattr(self, key) for key in ("text", *_OWN)}
        return ConfigRecord({"version": FORMAT_VERSION, **own, **asdict(self.plan)})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read what anybody may have written; raise MessageError if it is not one round."""
        _check_fields(config, {*_OWN, *_OF_PLAN}, "a round of training")
        try:
            plan = DpSgdPlan(**{key: config[key] for key in _OF_PLAN})
            return cls(config["text"], plan, *(config[key] for key in _OWN))
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused round: {error}") from error


_OWN = ("optimizer", "learning_rate", "salt", "number")
_MAX_STEPS = 10_000  # of one user: a message can ask for them


@dataclass(frozen=True)
class LocalTraining:
    """How each user trains a network on its own rows: ``steps`` plain steps down their mean loss.

    ``text`` is as that of :class:`NetworkRound`; a step is ``learning_rate`` times the gradient.
    """

    text: str
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        check_integer("local_steps", self.steps, 1, _MAX_STEPS)
        check_positive("local_learning_rate", self.learning_rate)

    def to_config(self) -> ConfigRecord:
        """Encode for a Flower message."""
        return ConfigRecord({"version": FORMAT_VERSION, **asdict(self)})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read what anybody may have written; raise MessageError if it is no local training."""
        _check_fields(config, {"steps", "learning_rate"}, "a local training")
        try:
            return cls(config["text"], config["steps"], config["learning_rate"])
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused local training: {error}") from error


def _check_fields(config: Mapping[str, Any], own: set[str], what: str) -> None:
    if set(config) != {"version", "text", *own}:
        raise MessageError(f"Unknown or missing fields in {what}.")
    if config["version"] != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    if not isinstance(config["text"], str):
        raise MessageError("Expected the text of a network.")
