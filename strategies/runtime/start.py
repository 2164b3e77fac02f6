"""Start of a run: the census of its nodes, up to the first question."""

import hashlib
import logging
import secrets

from flwr.serverapp import Grid

from ldp_flower.guarantee.messages import HASH_END
from ldp_flower.refusals import TooFew

from .census import advice, wait_for_nodes, with_features
from .exchange import Exchange
from .hooks import Hooks
from .live_run import LiveRun
from .named_study import NamedStudy
from .run import Arguments, TooFewReports
from .run_store import RunStore

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


def simulated_salt(strategy: Hooks, seed: int) -> int:
    """Return the public salt of a simulated run, from its seed.

    With noise at the node, two strategies that an app starts with one seed must not share a plan of
    the ledger. Then the salt depends on the strategy's arguments, too.
    """
    if strategy.noise == "user":
        return seed % HASH_END
    content = repr((type(strategy).__name__, strategy.prints(), seed)).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) % HASH_END


def start_run(
    strategy: Hooks,
    grid: Grid,
    kept: RunStore,
    arguments: Arguments,
    *,
    timeout: float,
    num_nodes: int | None,
    roster_timeout: float,
    max_users_per_node: int,
    seed: int | None,
) -> LiveRun:
    """Take the census of the nodes; return the run with its first question.

    Parameters and exceptions are those of the strategy's ``start``.
    """
    study = NamedStudy.of(strategy.study, strategy.study_key)
    if kept.get("roster") is None:
        roster = wait_for_nodes(grid, num_nodes, roster_timeout, strategy.fewest_nodes)
        kept.put("roster", roster)
    digests = None if strategy.row_schema is None else strategy.row_schema.digests()
    exchange = Exchange(kept, strategy.carrier, digests)
    if not kept.get("step 0 complete"):
        content = strategy.census_content(arguments)
        exchange.collect(grid, 0, exchange.census_messages(kept.get("roster"), content), timeout)
    nodes, step = exchange.census(kept.get("roster"), max_users_per_node)
    if others := exchange.other_schemas():
        node, difference = next(iter(others.items()))
        raise ValueError(_OTHER_SCHEMA.format(len(others), node, difference))
    if not nodes:
        hint = advice(exchange.census_failures().values())
        if step.silent:
            raise TimeoutError(
                f"No node gave a valid answer to the census within {timeout:g} s. {step}{hint}"
            )
        why = f"No node answered the census as it should. {step}{hint}"
        raise TooFewReports(TooFew(why, "answers"))
    kept.put("step 0 complete", True)
    if seed is not None and not all(facts.simulated for facts in nodes.values()):
        raise ValueError(_SEEDED)
    if kept.get("salt") is None:
        salt = secrets.randbits(63) if seed is None else simulated_salt(strategy, int(seed))
        kept.put("salt", salt)
    name = type(strategy).__name__
    fitting = with_features(nodes, strategy.row_features, name, strategy.users_advice)
    keys = {node: facts.keys for node, facts in fitting.items()}
    population = strategy.population(keys, kept.get("salt"))
    asked, left_out = [*fitting.values()], len(nodes) - len(fitting)
    run = LiveRun(strategy, population, arguments, exchange, kept, step, asked, left_out, study)
    logger.info("[CENSUS] %d users", run.facts.num_users)
    if (card := getattr(strategy, "card", None)) is not None:
        logger.info("\t├── steps to come: %s", card.rounds)
    logger.info("\t└──> %s", step)
    try:
        strategy.check_census(run)
        run.begin()
    except TooFewReports as refused:
        few = strategy.refusal(run.facts.num_users, arguments, population.num_nodes)
        few = few or refused.refusal
        raise TooFewReports(few) from None
    return run
