"""The policy under which a node answers: the operator's, tightened by the app's, and the seed."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, Self, TypeVar

from flwr.app import Context

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import MessageError
from ldp_flower.guarantee.studies import Studies
from ldp_flower.models.graph import NetworkError
from ldp_flower.randomizers import Randomizer
from ldp_flower.validation import is_integer, plain

from .approval import studies_of
from .reply import Received, Refusal

T = TypeVar("T")
RUN: Final = "run"  # the seed in the run's configuration, for a simulation's clients
Seed = int | Literal["run"] | Callable[[Context], int | None] | None

UNLIMITED = PrivacyPolicy(
    float("inf"),
    max_delta=0.5,
    allow_inexact=True,
    unit="record",
    noise="shared",
    max_dishonest=0,
    features_public=True,
    allow_public_changes=True,
    min_epsilon=0.0,
    max_width=1 << 40,
)


@dataclass(frozen=True)
class EffectivePolicy:
    """The policy under which a client answers.

    In a deployment it combines the operator's policy with the app's policy. In a simulation it is
    the app's policy.

    Attributes
    ----------
    seed : int or None
        Seed of private randomness, in simulation only. None stands for the system's randomness.
    rehearsal : bool (default: False)
        True if the operator rehearses: the node answers as usual, but reports are about no data,
        and nothing is spent.
    studies : Studies, optional
        The approved studies, if the operator has a file of studies. The node then answers only
        queries that belong to an approved study.
    """

    simulated: bool
    policy: PrivacyPolicy
    seed: int | None
    rehearsal: bool = False
    studies: Studies | None = None

    @classmethod
    def resolve(
        cls, received: Received, context: Context, own: PrivacyPolicy | None, seed: Seed
    ) -> Self:
        """Return the effective policy of a node, given the app's policy ``own`` and its seed.

        A ``seed`` that is a function gets the ``context``. With the seed "run", the seed is read
        from a simulation's ``context``; nothing else is read from a context. In a deployment, raise
        Refusal if the app has a seed, or if the operator has set no valid policy. In a simulation,
        raise Refusal if the seed is "run" and the run's configuration has no seed. In both cases,
        raise Refusal if the file of approved studies cannot be used.
        """
        if received.simulated:
            simulations = own or UNLIMITED
            of_run = _simulations_seed(seed, context)
            return cls(True, simulations, of_run, studies=studies_of(simulations))
        _warn_of_misspelt(frozenset(received.config))
        try:
            operators = PrivacyPolicy.from_node_config(received.config)
            policy = None if operators is None else operators.tightened_by(own)
        except (ValueError, OverflowError) as error:
            raise Refusal.of_policy(str(error)) from error
        if policy is None:
            raise Refusal(Refusal.MISCONFIGURED, "The operator has set no policy (max-epsilon).")
        rehearsal = received.config.get("rehearsal", False)
        if not isinstance(rehearsal, bool):
            raise Refusal.of_policy(f"Expected rehearsal true or false, got {rehearsal!r}.")
        if seed != RUN and _seed_of(seed, context) is not None:
            raise Refusal(Refusal.MISCONFIGURED, "The client is seeded outside a simulation.")
        return cls(False, policy, None, rehearsal, studies_of(policy))

    def require_allowed(self, randomizer: Randomizer) -> None:
        """Raise Refusal if the policy does not allow one report of ``randomizer``."""
        forbid(type(randomizer).__name__, self.policy.objection(randomizer))


def forbid(mechanism: str, objection: str | None) -> None:
    """Raise Refusal if ``objection`` is not None.

    Only the operator's log shows the mechanism and the objection; the server gets a fixed text.
    """
    if objection is not None:
        text = "The operator's policy does not allow this mechanism."
        raise Refusal(Refusal.FORBIDDEN, text, f"{mechanism}: {objection}.")


def called(function: Callable[[Context], T], context: Context) -> T:
    """Call a function of the app; replace an error of the client's types by RuntimeError.

    So the app's code cannot choose the text of a refusal.
    """
    try:
        return function(context)
    except (Refusal, LedgerError, MessageError, NetworkError) as error:
        raise RuntimeError("The app's own code raised one of the client's errors.") from error


def _simulations_seed(seed: Seed, context: Context) -> int | None:
    if seed != RUN:
        return _seed_of(seed, context)
    of_run = plain(context.run_config.get("seed"))
    if not is_integer(of_run):
        text = (
            'The client has seed="run", but the run\'s configuration has no integer under the key '
            '"seed". Set it there, or give the client another seed.'
        )
        raise Refusal(Refusal.MISCONFIGURED, text)
    return int(of_run)


def _seed_of(seed: int | Callable[[Context], int | None] | None, context: Context) -> int | None:
    found: int | None = plain(called(seed, context) if callable(seed) else seed)
    return found


@lru_cache
def _warn_of_misspelt(keys: frozenset[str]) -> None:
    """Log the operator's keys that may be misspelt, once per process."""
    for key, setting in sorted(PrivacyPolicy.nearly_settings(keys).items()):
        logging.getLogger(__name__).warning(
            "The key %r in node_config is not a setting of ldp-flower and is left to the app: "
            "do you mean %r?",
            key,
            setting,
        )


def check_own(policy: object, seed: object) -> None:
    """Raise ValueError unless an app's policy and seed are None or have valid types."""
    if not isinstance(policy, PrivacyPolicy | None):
        raise ValueError(f"Expected policy to be a PrivacyPolicy, got {type(policy).__name__}.")
    of_run = isinstance(seed, str) and seed == RUN
    if not (seed is None or of_run or is_integer(seed) or callable(seed)):
        raise ValueError(f'Expected seed to be an integer, a function or "run", got {seed!r}.')
