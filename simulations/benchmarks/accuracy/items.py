"""Measure what HeavyHitters finds: on Zipf-distributed items, and where aircraft fly.

They are the tables of simulations/benchmarks/README.md. ``pip install -e ".[sim]"`` brings the
flights.
"""

import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, simulate
from ldp_flower.strategies import HeavyHitters, HeavyHittersResult

from ...flights.flights.data import flights

Integers = NDArray[np.int64]

RANKS = 1000
EXPONENT = 1.5
EPSILONS = (1.0, 2.0, 4.0)


def zipf(domain_size: int, num_users: int, seed: int) -> tuple[Integers, Integers]:
    """Return one item per user and all items by rank, scattered over the domain."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1.0, RANKS + 1) ** EXPONENT
    if domain_size == RANKS:
        ranked = rng.permutation(RANKS)
    else:
        ranked = np.unique(rng.integers(0, domain_size, 2 * RANKS))
        ranked = rng.permutation(ranked)[:RANKS]
    return rng.choice(ranked, num_users, p=share / share.sum()), ranked


def recall(result: HeavyHittersResult, ranked: Iterable[int], top: int) -> float:
    """Return the share of the ``top`` most frequent items that was found."""
    return float(np.isin(list(ranked)[:top], result.items).mean())


def measure_zipf() -> None:
    """Print recall by domain, number of users and epsilon."""
    print("| domain | users | epsilon | mechanism | top 5 | top 10 | false | cut-off | seconds |")
    for domain_size, seeds in ((RANKS, 10), (1 << 20, 3), (1 << 40, 3)):
        for num_users in (2_000, 20_000, 200_000):
            for epsilon in EPSILONS:
                rows, mechanism = [], ""
                for seed in range(seeds):
                    items, ranked = zipf(domain_size, num_users, seed)
                    strategy = HeavyHitters(domain_size, epsilon=epsilon)
                    started = time.perf_counter()
                    result = simulate(strategy, Users.from_items(items), seed=seed)
                    mechanism = result.steps[1].mechanism
                    rows.append(
                        [
                            recall(result, ranked, 5),
                            recall(result, ranked, 10),
                            np.count_nonzero(~np.isin(result.items, items)),
                            result.cutoff / num_users,
                            time.perf_counter() - started,
                        ]
                    )
                top5, top10, false, cutoff, seconds = np.mean(rows, axis=0)
                print(
                    f"| {domain_size} | {num_users} | {epsilon:g} | {mechanism} | {top5:.2f} "
                    f"| {top10:.2f} | {false:.2f} | {cutoff:.4f} | {seconds:.1f} |",
                    flush=True,
                )


def measure_distribution() -> None:
    """Print the errors of the thresholded distribution and of all counts."""
    print("| users | epsilon | l1: thresholded / all counts / clipped | l2 | ")
    for num_users in (2_000, 20_000, 200_000):
        for epsilon in EPSILONS:
            errors = []
            for seed in range(10):
                items, _ = zipf(RANKS, num_users, seed)
                truth = np.bincount(items, minlength=RANKS) / num_users
                strategy = HeavyHitters(RANKS, epsilon=epsilon, max_items=RANKS)
                result = simulate(strategy, Users.from_items(items), seed=seed)
                assert result.all_counts is not None
                every = result.all_counts / num_users
                guesses = (result.distribution, every, np.maximum(every, 0))
                errors.append([[np.linalg.norm(g - truth, p) for g in guesses] for p in (1, 2)])
            l1, l2 = np.mean(errors, axis=0)
            cells = (" / ".join(f"{value:.3f}" for value in row) for row in (l1, l2))
            print(f"| {num_users} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


def measure_flights() -> None:
    """Print which of the destinations that aircraft fly to most are found."""
    every = flights()
    names = np.unique(every["dest"])
    numbers = np.searchsorted(names, every["dest"])
    print(f"{every['tailnum'].nunique()} aircraft, {len(names)} destinations")
    print("| items | set size | epsilon | top 5 | top 10 | found | false | mechanism |")
    for hashed, set_size in ((False, 1), (False, 3), (True, 1)):
        users = Users.from_items(every["dest"] if hashed else numbers, every["tailnum"])
        domain_size = 1 << 40 if hashed else len(names)
        favourites = (
            every.groupby(["tailnum", "dest"])
            .size()
            .reset_index(name="flights")
            .sort_values(["tailnum", "flights", "dest"], ascending=[True, False, True])
            .groupby("tailnum")
            .head(set_size)
        )
        shares = favourites["dest"].value_counts() / len(users)
        ranked = list(shares.index)
        print("true:", ", ".join(f"{name} {share:.3f}" for name, share in shares[:10].items()))
        for epsilon in EPSILONS:
            rows, mechanism = [], ""
            for seed in range(3 if hashed else 10):
                strategy = HeavyHitters(domain_size, epsilon=epsilon, set_size=set_size)
                result = simulate(strategy, users, seed=seed)
                found = list(result.named(names)) if hashed else names[result.items]
                mechanism = result.steps[1].mechanism
                hits = [np.isin(ranked[:top], found).mean() for top in (5, 10)]
                rows.append([*hits, len(found), len(set(found) - set(ranked))])
            cells = " | ".join(f"{value:.2f}" for value in np.mean(rows, axis=0))
            kind = "strings" if hashed else "numbers"
            print(f"| {kind} | {set_size} | {epsilon:g} | {cells} | {mechanism} |", flush=True)
