"""The policy that a node answers under: its operator's and the app's own together."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, Self, TypeVar

from flwr.app import Context

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.randomizers import Randomizer
from ldp_flower.validation import is_integer

from .reply import Received, Refusal

T = TypeVar("T")
RUN: Final = "run"  # a simulation's clients take the seed of its run
Seed = int | Literal["run"] | Callable[[Context], int | None] | None

_UNLIMITED = PrivacyPolicy(
    float("inf"),
    max_delta=0.5,
    allow_inexact=True,
    unit="record",
    features_public=True,
    allow_public_changes=True,
    min_epsilon=0.0,
    max_width=1 << 40,
)


@dataclass(frozen=True)
class EffectivePolicy:
    """The policy that a client answers under.

    In a deployment it combines the operator's policy with the app's own; in a simulation it is
    the app's own.

    Attributes
    ----------
    seed : int or None
        Seed of private randomness, in simulation only; None: the system's.
    rehearsal : bool (default: False)
        Whether the operator rehearses: everything is as always, but reports are about
        no data, and nothing is spent.
    """

    simulated: bool
    policy: PrivacyPolicy
    seed: int | None
    rehearsal: bool = False

    @classmethod
    def resolve(
        cls, received: Received, context: Context, own: PrivacyPolicy | None, seed: Seed
    ) -> Self:
        """Return the effective policy of a node, given what the app was constructed with.

        A ``seed`` that is a function gets the ``context``. Of a simulation's ``context`` the seed
        of the run is read, if the app asks for it; of any other nothing. Refusal if this is no
        simulation and the app is seeded, or the operator has set no valid policy; or this is one,
        and its run lacks the seed that the app asks for.
        """
        if received.simulated:
            return cls(True, own or _UNLIMITED, _simulations_seed(seed, context))
        _warn_of_misspelt(frozenset(received.config))
        try:
            operators = PrivacyPolicy.from_node_config(received.config)
        except (ValueError, OverflowError) as error:
            raise Refusal.of_policy(str(error)) from error
        if operators is None:
            raise Refusal(Refusal.MISCONFIGURED, "The operator has set no policy (max-epsilon).")
        rehearsal = received.config.get("rehearsal", False)
        if not isinstance(rehearsal, bool):
            raise Refusal.of_policy(f"Expected rehearsal true or false, got {rehearsal!r}.")
        if seed != RUN and _seed_of(seed, context) is not None:
            raise Refusal(Refusal.MISCONFIGURED, "The client is seeded outside a simulation.")
        return cls(False, operators.tightened_by(own), None, rehearsal)

    def require_allowed(self, randomizer: Randomizer) -> None:
        """Raise Refusal if the policy does not allow one report of this mechanism."""
        forbid(type(randomizer).__name__, self.policy.objection(randomizer))


def forbid(mechanism: str, objection: str | None) -> None:
    """Raise Refusal if a policy has an objection to a mechanism; which one, the log says."""
    if objection is not None:
        text = "The operator's policy does not allow this mechanism."
        raise Refusal(Refusal.FORBIDDEN, text, f"{mechanism}: {objection}.")


def called(function: Callable[[Context], T], context: Context) -> T:
    """Call a function of the app; what it raises must be no answer of ours, in words of its own."""
    try:
        return function(context)
    except (Refusal, LedgerError) as error:
        raise RuntimeError("The app's own code raised one of the client's errors.") from error


def _simulations_seed(seed: Seed, context: Context) -> int | None:
    if seed != RUN:
        return _seed_of(seed, context)
    of_run = context.run_config.get("seed")
    if not isinstance(of_run, int) or isinstance(of_run, bool):
        text = "The run's configuration has no integer seed, which the client is to take."
        raise Refusal(Refusal.MISCONFIGURED, text)
    return of_run


def _seed_of(seed: int | Callable[[Context], int | None] | None, context: Context) -> int | None:
    return called(seed, context) if callable(seed) else seed


@lru_cache
def _warn_of_misspelt(keys: frozenset[str]) -> None:
    """Log which of an operator's keys may be misspelt, once a process."""
    for key, setting in sorted(PrivacyPolicy.nearly_settings(keys).items()):
        logging.getLogger(__name__).warning(
            "The key %r in node_config is no setting of ldp-flower and is left to the app: "
            "is %r meant?",
            key,
            setting,
        )


def check_own(policy: object, seed: object) -> None:
    """Raise ValueError unless an app was constructed with a policy and a seed, or without."""
    if not isinstance(policy, PrivacyPolicy | None):
        raise ValueError(f"Expected policy to be a PrivacyPolicy, got {type(policy).__name__}.")
    of_run = isinstance(seed, str) and seed == RUN
    if not (seed is None or of_run or is_integer(seed) or callable(seed)):
        raise ValueError(f'Expected seed to be an integer, a function or "run", got {seed!r}.')
