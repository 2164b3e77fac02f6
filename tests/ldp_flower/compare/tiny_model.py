"""A small app for the tests of comparisons: logistic regression on five features, in NumPy."""

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

NODES, DIM = 120, 5


def rows(seed=0):
    """Return rows and labels of all nodes, and of a test set."""
    rng = np.random.default_rng(seed)
    truth = 3 * rng.standard_normal(DIM)
    x = rng.standard_normal((NODES + 100, 10, DIM)) / np.sqrt(DIM)
    y = (x @ truth + rng.logistic(size=x.shape[:2]) > 0).astype(float)
    return x[:NODES], y[:NODES], x[NODES:], y[NODES:]


X, Y, X_TEST, Y_TEST = rows()
INITIAL = ArrayRecord([np.zeros((DIM, 1)), np.array(0.0), np.array([7])])  # the last: a counter


def trained(weights, bias, node):
    for _ in range(5):
        residuals = Y[node] - 1 / (1 + np.exp(-(X[node] @ weights[:, 0] + bias)))
        weights = weights + 2 * (residuals @ X[node])[:, None] / 10
        bias = bias + residuals.mean()
    return weights, bias


def make_app(calls=None):
    """Return the app; it appends to ``calls`` who trains in which round."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        node = context.node_config["partition-id"]
        weights, bias, counter = message.content["arrays"].to_numpy_ndarrays()
        if calls is not None:
            calls.append((node, message.content["config"]["server-round"]))
        weights, bias = trained(weights, bias, node)
        content = RecordDict(
            {
                "arrays": ArrayRecord([weights, np.asarray(bias), counter + 1]),
                "metrics": MetricRecord({"num-examples": 10 + node}),
            }
        )
        return Message(content, reply_to=message)

    return app


def evaluate(server_round, arrays):
    weights, bias, counter = arrays.to_numpy_ndarrays()
    assert counter.tolist() == [7]
    right = (X_TEST @ weights[:, 0] + bias > 0) == Y_TEST
    return MetricRecord({"loss": 1.0, "accuracy": float(right.mean())})
