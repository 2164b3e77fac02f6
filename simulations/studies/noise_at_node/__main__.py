"""Regressions and classifications of real tables by where noise is added, on people held out.

``python -m simulations.studies.noise_at_node --data FOLDER`` prints every run and adds it to
``runs.csv``.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from ldp_flower import simulate
from ldp_flower.strategies import PrivateClassification, PrivateRegression, TooFewReports

from ...harness.command import Command
from ..grouped_data import data

HERE = Path(__file__).parent
TABLES = ("flights", "cps", "wages", "chemistry", "churn", "adult, 1 row", "wine")
SETTINGS = (("node", 0.5), ("node", 1.0), ("user", 1.0), ("user", 2.0))
FIELDS = ("table", "people", "nodes", "seed", "noise", "epsilon", "score", "said", "error", "plain")


def few(split: data.Split, people: int, seed: int) -> data.Split:
    """Return a split with at most so many of the users who take part."""
    own = split.training
    known = np.unique(own.user)
    chosen = np.random.default_rng([seed, 1]).permutation(known)[:people]
    return data.Split(split.declared, own.rows(np.isin(own.user, chosen)), split.held_out)


def plain(split: data.Split) -> float:
    """Return what the same model is worth without privacy."""
    x, y = split.training.features, split.training.targets
    if split.declared.is_binary:
        fit = LogisticRegression(C=100.0, max_iter=300).fit(x[:, 1:], y)
        return split.score_of(np.r_[fit.intercept_, fit.coef_[0]])
    found = Ridge(1.0).fit(x[:, 1:], y)
    return split.score_of(np.r_[found.intercept_, found.coef_])


def cells(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield the runs, one after the other."""
    for name in options.tables:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            split = few(data.split(name, options.data, seed), options.people, seed)
            known = plain(split)
            kind = PrivateClassification if split.declared.is_binary else PrivateRegression
            for noise, epsilon in SETTINGS:
                row = {"table": name, "people": len(split.users), "nodes": options.nodes}
                row |= {"seed": seed, "noise": noise, "epsilon": epsilon, "plain": round(known, 4)}
                strategy = kind(split.declared.schema, epsilon=epsilon, noise=noise)
                try:
                    fit = simulate(strategy, split.users, seed=seed, num_nodes=options.nodes)
                except TooFewReports:
                    yield row | dict.fromkeys(("score", "said", "error"), "refused")
                    continue
                numbers = split.score_of(fit.coef), fit.score, fit.score_std_error
                yield row | dict(zip(("score", "said", "error"), np.round(numbers, 4), strict=True))


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run, and add every run to the file."""
    command = Command("simulations.studies.noise_at_node", __doc__)
    command.add_argument("--data", type=Path, help="folder with the tables that come as files")
    command.choose("--tables", TABLES)
    command.add_argument("--people", type=int, default=4000)
    command.add_argument("--nodes", type=int, default=10)
    command.add_argument("--first-seed", type=int, default=900)
    command.add_argument("--seeds", type=int, default=3)
    command.add_argument("--file", type=Path, default=HERE / "runs.csv")
    options = command.parse_args(arguments)
    with options.file.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not file.tell():
            writer.writeheader()
        for row in cells(options):
            writer.writerow(row)
            file.flush()
            print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
