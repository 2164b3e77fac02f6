"""What is compared: an app that trains a model, and how the model is judged."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.clientapp import ClientApp

#: Flower's: number of the round and model to metrics.
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
RunConfig = dict[str, bool | float | int | str]


@dataclass(frozen=True, eq=False)
class App:
    """An app, as a strategy's ``start`` is given it.

    Attributes
    ----------
    client_app : ClientApp
        What every node runs, without any mod for privacy.
    initial_arrays : ArrayRecord
        The model that training starts from.
    evaluate_fn : callable or None
        Judges a model; None: the app's own evaluate function does, on the nodes.
    train_config : ConfigRecord
        What training is told.
    arrays_key, config_key : str
        Names of the two records in a message.
    run_config : dict
        The run's configuration, as clients see it.
    strategy : str
        Name of the strategy that the app itself uses.
    """

    client_app: ClientApp
    initial_arrays: ArrayRecord
    evaluate_fn: Evaluate | None
    train_config: ConfigRecord = field(default_factory=ConfigRecord)
    arrays_key: str = "arrays"
    config_key: str = "config"
    run_config: RunConfig = field(default_factory=dict)
    strategy: str = "FedAvg"
