"""A protocol run on synthetic answers: nobody is asked, and nothing but counts is known."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ldp_flower.expectation import WouldRefuse
from ldp_flower.randomizers import Estimate, Randomizer

from ..runtime import Answers, Ask, LdpStrategy, Result, Run, TooFewReports
from ..runtime.population import SizeOnlyPopulation

R = TypeVar("R", bound=Result)

logger = logging.getLogger("flwr")


@dataclass(frozen=True)
class DryRun(Generic[R]):
    """A protocol's result from synthetic answers."""

    result: R
    asks: tuple[Ask, ...]  # what it asked: how many, and through which mechanism

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """The mechanisms, each once."""
        return tuple(dict.fromkeys(ask.randomizer for ask in self.asks))


def dry_run(
    strategy: LdpStrategy[R], num_users: int, answer: Callable[[Ask], Estimate | Answers]
) -> DryRun[R]:
    """Run a protocol on synthetic answers; raise WouldRefuse, in its own words, if it refuses."""
    run = Run(strategy, SizeOnlyPopulation(num_users))
    asks: list[Ask] = []
    disabled, logger.disabled = logger.disabled, True
    try:
        running = strategy.protocol(run)
        reply: Estimate | Answers | None = None
        while True:
            asks.append(running.send(reply))
            reply = answer(asks[-1])
    except TooFewReports as refused:
        raise WouldRefuse(str(refused)) from None
    except StopIteration as end:
        return DryRun(end.value, tuple(asks))
    finally:
        logger.disabled = disabled
