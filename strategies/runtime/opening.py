"""How a run begins: its store, its nodes, their census."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.serverapp import Grid

from ldp_flower.guarantee.keys import HASH_END

from .census import advice, wait_for_nodes, with_features
from .exchange import Exchange
from .identity import printed, prints_of, recognise
from .run import Arguments, Census, LiveRun, TooFewReports
from .run_store import RunStore

if TYPE_CHECKING:
    from .base import LdpStrategy

logger = logging.getLogger("flwr")

_SEEDED = (
    "Expected no seed outside a simulation, where runs with the same one would all ask the same "
    "users first. Nobody has been asked anything but the census."
)
_OTHER_SCHEMA = (
    "Expected all nodes to have the schema of this strategy: of {} with another one the first is "
    "node {}, where {}. Agree on one schema (`Schema.to_dict`). Nobody has been asked anything "
    "but the census."
)


@contextmanager
def own_store(
    strategy: "LdpStrategy[Any]", store: str | Path | None, **other: object
) -> Iterator[RunStore]:
    """Open the store of a run; refuse that of another strategy, other arguments or else."""
    with RunStore(store).open() as kept:
        if store is not None:
            prints = {name: printed(value) for name, value in other.items()}
            recognise(kept, type(strategy), {**prints_of(strategy), **prints})
        yield kept


def begun(
    strategy: "LdpStrategy[Any]",
    grid: Grid,
    kept: RunStore,
    arguments: Arguments,
    *,
    timeout: float,
    num_nodes: int | None,
    roster_timeout: float,
    max_users_per_node: int,
    seed: int | None,
    place: str | Path | None,
) -> LiveRun:
    """Take the census of the nodes; return the run with its first question, as of ``start``."""
    if kept.get("roster") is None:
        roster = wait_for_nodes(grid, num_nodes, roster_timeout, strategy._fewest_nodes)
        kept.put("roster", roster)
    digests = None if strategy._schema is None else strategy._schema.digests()
    exchange = Exchange(kept, strategy._rides_on, digests)
    if not kept.get("step 0 complete"):
        content = strategy._census_content(arguments)
        exchange.collect(grid, 0, exchange.census_messages(kept.get("roster"), content), timeout)
    nodes, step = exchange.census(kept.get("roster"), max_users_per_node)
    if others := exchange.other_schemas():
        node, difference = next(iter(others.items()))
        raise ValueError(_OTHER_SCHEMA.format(len(others), node, difference))
    if not nodes:
        hint = advice(step.reasons)
        if step.silent:
            raise TimeoutError(f"No node answered the census within {timeout:g} s. {step}{hint}")
        raise TooFewReports(f"No node answered the census as it should. {step}{hint}")
    kept.put("step 0 complete", True)
    if seed is not None and not all(facts.simulated for facts in nodes.values()):
        raise ValueError(_SEEDED)
    if kept.get("salt") is None:
        kept.put("salt", secrets.randbits(63) if seed is None else int(seed) % HASH_END)
    fitting = with_features(nodes, strategy._num_features, type(strategy).__name__)
    keys = {node: facts.keys for node, facts in fitting.items()}
    census = Census(
        step=step,
        num_users=sum(each.count for each in keys.values()),
        seeded=any(facts.seeded for facts in fitting.values()),
        rehearsing=sum(facts.rehearsing for facts in fitting.values()),
        others=len(nodes) - len(fitting),
    )
    population = strategy._of_census(keys, kept.get("salt"))
    logger.info("[CENSUS] %d users", census.num_users)
    if (card := getattr(strategy, "card", None)) is not None:
        logger.info("\t├── steps to come: %s", card.rounds)
    logger.info("\t└──> %s", step)
    run = LiveRun(strategy, population, arguments, exchange, kept, census, place)
    try:
        strategy.check_census(run)
        run.begin()
    except TooFewReports as refused:
        raise TooFewReports(strategy.refusal(census.num_users, arguments) or str(refused)) from None
    return run
