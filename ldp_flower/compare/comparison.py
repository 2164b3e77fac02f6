"""Comparison of one app under all methods, from the app's parts."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp

from ..guarantee.training import flattened, parameters_of
from ..strategies import LdpFedAvg
from ..validation import plain_arguments
from .comparison_plan import ComparisonPlan, MakeDpSgd
from .nodes import App, Evaluate, RunConfig
from .report import Comparison


@plain_arguments
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

    A cell is a method at an epsilon and a seed. Every cell trains the same ClientApp from the
    same arrays on the same nodes. A seed determines the noise, the nodes of each round, and any
    random numbers of the app itself.

    Parameters
    ----------
    client_app : ClientApp
        The app that every node runs, with a function for messages of type ``train`` and without
        mods for privacy. Nodes are identified by ``partition-id`` and ``num-partitions`` in their
        config.
    initial_arrays : ArrayRecord
        The initial model.
    evaluate_fn : callable or None
        Function from the number of the round and the model to a MetricRecord, as in Flower's
        strategies. If it is None, the app's own function for messages of type ``evaluate`` is
        used, on at most 500 nodes.
    num_nodes : int
        Number of nodes; each is one user.
    epsilons : sequence of float (default: 1, 2, 4)
        Epsilons for the whole run, for all methods that have an epsilon.
    seeds : int (default: 3)
        Number of runs of each method.
    methods : sequence of str, optional
        Some of :data:`METHODS`; by default all.
    rounds : int, optional
        Number of rounds of all methods. By default, LdpFedAvg uses its own rule, and the other
        methods have 20 rounds.
    delta : float (default: 1e-5)
        Delta of the methods that are not pure. It must be below 1 / ``num_nodes``.
    clip : float, optional
        Length to which DP-FedAvg and LocalDpMod clip updates. The default is the median length
        of the updates of 50 nodes, for which no privacy cost is charged here.
    train_config : ConfigRecord, optional
        Config of the training, in addition to ``server-round``.
    run_config : dict, optional
        The run's configuration, as clients see it.
    strategy : callable (default: LdpFedAvg)
        Function that returns the strategy for ``epsilon=``, such as
        ``partial(LdpFedAvg, model="net")``.
    dp_sgd : callable, optional
        Function from epsilon, delta and the number of rounds to a ClientApp that trains with
        DP-SGD at this cost for all rounds. The cost is not verified.
    metric : str, optional
        Name of the metric to show. The default is the first metric that is not a loss.
    name : str (default: "app")
        Name of the app. With ``path``, change the name when the app's code or data change, since
        the file does not notice such a change.
    path : str or Path, optional
        CSV file of finished cells, each under a digest of all settings. Cells in the file are
        not run again, so a comparison can be interrupted or extended.

    Returns
    -------
    Comparison
        The cells, with a table and a figure.

    Raises
    ------
    CannotCompareError
        If the app cannot be compared; the message says what to change.
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
    plan = ComparisonPlan(
        lambda seed: app, num_nodes, rounds, delta, clip, strategy, dp_sgd, metric, methods
    )
    digest = hashlib.sha256(flattened(parameters_of(initial_arrays)).tobytes()).hexdigest()
    known = [name, digest, dict(app.train_config), app.run_config]
    fingerprint = json.dumps(known, sort_keys=True, default=str)
    return plan.compared(name, plan.cells(fingerprint, epsilons, seeds), path)
