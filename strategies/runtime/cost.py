"""Cost of a run: the largest epsilon and delta that a user spends by its answers."""

from collections import Counter
from collections.abc import Sequence

from ldp_flower.randomizers import NodeSum, Randomizer, RecordMechanism
from ldp_flower.randomizers.sums import PARTS

from .ask import Ask
from .facts import PrivacySpent


def privacy_spent(asked: Sequence[Ask], unit: str, seeded: bool) -> PrivacySpent:
    """Return the largest cost that any user has from answering all these questions.

    ``unit`` is the protected unit. ``seeded`` is True if reports were drawn from a known seed.
    """
    # Costs add up where cohorts overlap. The largest sum is that at the low end of some cohort.
    places = {ask.cohort.low for ask in asked}
    costs = [
        _charged([ask.randomizer for ask in asked if ask.cohort.low <= at < ask.cohort.high])
        for at in places
    ]
    sums = [ask.randomizer for ask in asked if isinstance(ask.randomizer, NodeSum)]
    shared = any(mechanism.shared for mechanism in sums)
    return PrivacySpent(
        max(sum(mechanism.epsilon for mechanism in those) for those in costs),
        max(sum(mechanism.delta for mechanism in those) for those in costs),
        unit,
        all(ask.randomizer.exact for ask in asked),
        seeded,
        noise="shared" if shared else "node" if sums else "user",
        alone=max(sum(map(_alone, those)) for those in costs) if shared else None,
    )


def _alone(mechanism: Randomizer) -> float:
    return mechanism.alone if isinstance(mechanism, NodeSum) else mechanism.epsilon


def _charged(mechanisms: Sequence[Randomizer]) -> list[Randomizer]:
    """Return the mechanisms that are charged; a plan's later reports are paid with its first."""
    plans = Counter[str]()
    charged = []
    for mechanism in mechanisms:
        if isinstance(mechanism, NodeSum):
            before = plans[mechanism.plan]
            plans[mechanism.plan] += mechanism.parts
            if before and plans[mechanism.plan] <= PARTS:
                continue
        if isinstance(mechanism, RecordMechanism):
            plans[mechanism.plan] += 1
            if plans[mechanism.plan] % mechanism.steps != 1 % mechanism.steps:
                continue
        charged.append(mechanism)
    return charged
