from time import sleep

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.serverapp.strategy import FedAvg

from ldp_flower import InProcessGrid
from ldp_flower.guarantee.budget import in_simulation


def send(grid, nodes, action):
    messages = [Message(RecordDict({"c": ConfigRecord({"n": [1]})}), n, action) for n in nodes]
    return list(grid.send_and_receive(messages))


def make_app():
    app = ClientApp()

    @app.query("count")
    def count(message, context):
        state = context.state.setdefault("count", MetricRecord({"n": 0}))
        state["n"] += 1
        message.content["c"]["n"] = [2]
        assert in_simulation()
        return Message(RecordDict({"m": MetricRecord({"n": state["n"]})}), reply_to=message)

    @app.query("fail")
    def fail(message, context):
        context.state["count"]["n"] += 100
        raise ValueError("boom")

    @app.query("nothing")
    def nothing(message, context):
        return None

    return app


def test_nodes_keep_their_state_and_receive_copies():
    grid = InProcessGrid(make_app(), 3)
    assert [r.content["m"]["n"] for r in send(grid, [1, 2, 2], "query.count")] == [1, 1, 2]
    assert not in_simulation()
    content = RecordDict({"c": ConfigRecord({"n": [1]})})
    list(grid.send_and_receive([Message(content, n, "query.count") for n in (1, 2)]))
    assert content["c"]["n"] == [1]


def test_a_handler_that_raises_loses_its_changes_and_answers_an_error():
    grid = InProcessGrid(make_app(), 1)
    send(grid, [1], "query.count")
    (reply,) = send(grid, [1], "query.fail")
    assert reply.error.code == 2 and "boom" in reply.error.reason
    assert [r.content["m"]["n"] for r in send(grid, [1], "query.count")] == [2]


def test_silent_and_unknown_nodes_do_not_answer():
    grid = InProcessGrid(make_app(), 1)
    assert send(grid, [1], "query.nothing") == []
    assert send(grid, [99], "query.count") == []


def test_flowers_own_strategies_run_in_it():
    app = ClientApp()

    @app.train()
    def train(message, context):
        (x,) = message.content["arrays"].to_numpy_ndarrays()
        records = {
            "arrays": ArrayRecord([x + context.node_id]),
            "metrics": MetricRecord({"num-examples": 1}),
        }
        return Message(RecordDict(records), reply_to=message)

    grid = InProcessGrid(app, 4)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    result = strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=2)
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], 2 * 2.5)


@pytest.mark.parametrize("num_nodes", ["4", 0, 2.0])
def test_a_number_of_nodes_that_is_none_is_refused(num_nodes):
    with pytest.raises(ValueError, match="Expected an integer num_nodes"):
        InProcessGrid(make_app(), num_nodes)


def test_a_legacy_server_runs_though_its_threads_wait_for_one_another():
    busy, most = [], []

    class Adds(NumPyClient):
        def fit(self, parameters, config):
            busy.append(1)
            sleep(0.002)
            most.append(len(busy))
            busy.pop()
            return [parameters[0] + 1], 1, {}

    def server_fn(context):
        start = ndarrays_to_parameters([np.zeros(2)])
        strategy = LegacyFedAvg(fraction_evaluate=0.0, initial_parameters=start)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2))

    grid = InProcessGrid(ClientApp(lambda context: Adds().to_client()), 4)
    ServerApp(server_fn=server_fn)(grid, Context(0, 0, {}, RecordDict(), {}))
    assert grid.run.run_id == grid.contexts[1].run_id
    assert most == [1] * 8
