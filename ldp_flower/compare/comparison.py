"""One app under all methods: which cells there are, and which of them are to be run."""

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp

from ..guarantee.training import flattened, parameters_of
from ..strategies import LdpFedAvg
from ..sweep import Sweep, rows_of
from ..validation import check_choice, check_integer, check_positive
from .jobs import METHODS, MakeDpSgd, Plan
from .methods import quiet
from .nodes import App, Evaluate, RunConfig
from .report import Comparison
from .runner import COLUMNS, KEY, Cell, Runner


def chosen_methods(given: Sequence[str] | None, plan: Plan) -> list[str]:
    """Return the methods to run, in their order; raise ValueError at an unknown one."""
    for name in given or ():
        check_choice("methods", name, METHODS)
    if plan.dp_sgd is None and given is not None and "DP-SGD" in given:
        raise ValueError("Expected dp_sgd, the app with DP-SGD, for method 'DP-SGD', got None.")
    return [
        name
        for name in METHODS
        if (name in given if given is not None else name != "DP-SGD" or plan.dp_sgd is not None)
    ]


def run_comparison(
    load: Callable[[int], App],
    plan: Plan,
    *,
    name: str,
    fingerprint: str,
    epsilons: Sequence[float],
    seeds: int,
    chosen: Sequence[str] | None,
    path: str | Path | None,
) -> Comparison:
    """Run what the file lacks, and return all; see :func:`compare`."""
    check_integer("seeds", seeds, 1)
    if not len(epsilons):
        raise ValueError("Expected epsilons to hold at least one, got none.")
    for epsilon in epsilons:
        check_positive("epsilon", epsilon)
        plan.strategy(epsilon=epsilon)  # refuses what it cannot do before anything runs
    names = chosen_methods(chosen, plan)

    def cell(method: str, epsilon: float, seed: int) -> Cell:
        known = {
            "app": fingerprint,
            "nodes": plan.num_nodes,
            "metric": plan.metric,
            "versions": [version("ldp-flower"), version("flwr")],
            **plan.settings(method, epsilon),
        }
        settings = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
        return Cell(settings, method, epsilon, seed)

    cells = [
        cell(method, epsilon, seed)
        for seed in range(seeds)
        for method in names
        for epsilon in (sorted({*epsilons}) if METHODS[method][1] else [math.inf])
    ]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(path) if path is not None else Path(scratch) / "cells.csv"
        runner = Runner(load, plan)
        sweep = Sweep(KEY, COLUMNS, runner)
        if sweep.missing(cells, file):
            runner.check()
            with quiet(failures=True):
                sweep(cells, file, 1)
        kept = {tuple(row[column] for column in KEY): row for row in rows_of(file)}
    return Comparison(name, plan.num_nodes, [kept[each.key] for each in cells])


def compare(
    client_app: ClientApp,
    initial_arrays: ArrayRecord,
    evaluate_fn: Evaluate | None,
    num_nodes: int,
    *,
    epsilons: Sequence[float] = (1.0, 2.0, 4.0),
    seeds: int = 3,
    methods: Sequence[str] | None = None,
    rounds: int | None = None,
    delta: float = 1e-5,
    clip: float | None = None,
    train_config: ConfigRecord | None = None,
    run_config: RunConfig | None = None,
    strategy: Callable[..., LdpFedAvg] = LdpFedAvg,
    dp_sgd: MakeDpSgd | None = None,
    metric: str | None = None,
    name: str = "app",
    path: str | Path | None = None,
) -> Comparison:
    """Compare an app under FedAvg, DP-FedAvg, LocalDpMod, DP-SGD and LdpFedAvg, in process.

    Every cell, a method at an epsilon and a seed, trains the same ClientApp from the same
    arrays on the same nodes. Seeds change the noise and who is in which round, and whatever
    the app itself draws.

    Parameters
    ----------
    client_app : ClientApp
        What every node runs, with a function for messages of type ``train`` and no mods for
        privacy. Nodes are identified by ``partition-id`` and ``num-partitions`` in their config.
    initial_arrays : ArrayRecord
        The model that training starts from.
    evaluate_fn : callable or None
        As of Flower's strategies: number of the round and model to a MetricRecord. None: the
        app's own function for messages of type ``evaluate`` judges, on at most 500 nodes.
    num_nodes : int
        Number of nodes; each is one user.
    epsilons : sequence of float (default: 1, 2, 4)
        Of all methods that have one, for the whole run.
    seeds : int (default: 3)
        Runs of each method.
    methods : sequence of str, optional
        Some of :data:`METHODS`; by default all.
    rounds : int, optional
        Rounds of all methods. By default 20, and LdpFedAvg's own rule.
    delta : float (default: 1e-5)
        Of the methods that are not pure; below one over the number of nodes.
    clip : float, optional
        Longest update of DP-FedAvg and LocalDpMod. By default the median length of the
        updates of 50 nodes, which nobody is charged for here.
    train_config : ConfigRecord, optional
        Config of the training, beside ``server-round``.
    run_config : dict, optional
        The run's configuration, as clients see it.
    strategy : callable (default: LdpFedAvg)
        Returns the strategy from ``epsilon=``: ``partial(LdpFedAvg, model="net")``.
    dp_sgd : callable, optional
        Returns, from epsilon, delta and the number of rounds, a ClientApp that trains with
        DP-SGD, at this cost for all rounds. It is taken at its word.
    metric : str, optional
        Which metric to show; by default the first that is not a loss.
    name : str (default: "app")
        What the app is called. With ``path``, change it with the app's code or data: the
        file cannot see that they changed.
    path : str or Path, optional
        CSV file of finished cells, each under a digest of all settings. What it holds is
        not run again, so that a comparison may be interrupted, or asked for more.

    Returns
    -------
    Comparison
        The cells, with a table and a figure.

    Raises
    ------
    CannotCompareError
        If the app cannot be compared; the text says what to change.
    ValueError
        If an argument is out of range.
    """
    app = App(
        client_app,
        initial_arrays,
        evaluate_fn,
        train_config or ConfigRecord(),
        run_config=run_config or {},
    )
    plan = Plan(num_nodes, rounds, delta, clip, strategy, dp_sgd, metric)
    digest = hashlib.sha256(flattened(parameters_of(initial_arrays)).tobytes()).hexdigest()
    known = [name, digest, dict(app.train_config), app.run_config]
    return run_comparison(
        lambda seed: app,
        plan,
        name=name,
        fingerprint=json.dumps(known, sort_keys=True, default=str),
        epsilons=epsilons,
        seeds=seeds,
        chosen=methods,
        path=path,
    )
