"""Networks trained with noise at the node or shared: what is estimated, stated and refused."""

import math
from functools import partial

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message

from ldp_flower import InProcessGrid, PrivacyPolicy, Users, simulate
from ldp_flower.clients import NetworkUsersApp
from ldp_flower.expectation import WouldRefuse
from ldp_flower.models import Network
from ldp_flower.models.graph import Graph, Operation, Reference, Tensor
from ldp_flower.planning import Setting, expectation
from ldp_flower.randomizers import BallSum
from ldp_flower.strategies import LdpFedAvg, RecordDpSgd, TooFewReports
from ldp_flower.strategies.runtime import Run
from ldp_flower.strategies.runtime.population import SizeOnlyPopulation
from ldp_flower.strategies.sums import networks
from ldp_flower.strategies.sums.budget import Budget

NODES, USERS, DIM = 5, 40, 4


def network():
    """Return a softmax regression whose offsets are not trained."""
    graph = Graph(
        Tensor("float32", (DIM,)),
        {"b": Tensor("float32", (2,)), "w": Tensor("float32", (DIM, 2), True)},
        (Operation("aten.addmm.default", (Reference("b"), Reference(None), Reference("w")), {}),),
        Reference(0),
        "cross_entropy",
    )
    arrays = {"w": np.zeros((DIM, 2), np.float32), "b": np.array([0.1, -0.1], np.float32)}
    return Network(graph, arrays)


def people(seed=0):
    rows = np.random.default_rng(seed).normal(size=(2 * USERS, DIM))
    names = [f"u{i:03d}" for i in np.repeat(np.arange(USERS), 2)]
    return Users.from_rows(rows, (rows[:, 0] > rows[:, 1]).astype(float), names)


class Losing(InProcessGrid):
    """A grid of trained users whose nodes lose the sums of some steps."""

    def __init__(self, *lost):
        self.lost = lost

        def load(context):
            return people().partition(context.node_config["partition-id"], NODES)

        super().__init__(NetworkUsersApp(load, seed=1), NODES)

    def _handle(self, message):
        kind, step = message.metadata.message_type, message.metadata.group_id
        if kind == "query.report" and int(step) in self.lost:
            return Message(Error(2, "gone"), reply_to=message)
        return super()._handle(message)


def trained(noise, *lost, rounds=10, **arguments):
    strategy = LdpFedAvg(epsilon=20.0, network=network(), noise=noise, **arguments)
    return strategy.start(Losing(*lost), num_rounds=rounds, seed=2)


def accuracy(result):
    arrays = {name: array.numpy() for name, array in result.arrays.items()}
    assert np.array_equal(arrays["b"], network().arrays["b"])
    test = people(5)
    outputs = network().with_arrays(arrays).run(test.features.astype(np.float32))
    return np.mean(outputs.argmax(1) == test.targets)


@pytest.mark.parametrize("noise", ["node", "shared"])
def test_all_users_train_in_every_step_and_pay_once(noise):
    result = trained(noise)
    assert accuracy(result) > 0.85  # guessing: 0.5
    assert result.num_reports == result.num_users == USERS
    assert (result.privacy.epsilon, result.privacy.delta) == (20.0, 1e-6)
    assert result.privacy.noise == noise
    honest = 3 if noise == "shared" else 1  # of five, one may collude and one may fail
    if noise == "shared":
        assert result.privacy.alone == BallSum(20.0, honest=honest).alone
    run = Run(LdpFedAvg(epsilon=20.0, network=network(), noise=noise), population())
    budget = Budget.of(run, 1e-6)
    assert budget.honest == honest
    # The noise of the users' mean gradient, if all of the budget were for one step.
    mechanism = budget.ball(2 * DIM, math.hypot(1, 0.25), 1.0)
    assert result.noise_to_signal == pytest.approx(
        budget.error(mechanism) * math.sqrt(2 * DIM), rel=1e-3
    )


def test_a_simulation_takes_the_app_for_networks():
    strategy = LdpFedAvg(epsilon=20.0, network=network(), noise="node")
    policy = PrivacyPolicy(1.0, max_delta=1e-5, noise="node")
    with pytest.raises(RuntimeError, match="policy does not allow"):  # and not: unknown statistic
        simulate(strategy, people(), seed=2, num_nodes=2, policy=policy)


def population():
    return SizeOnlyPopulation(USERS, NODES)


def test_a_seed_gives_the_same_network_and_noise_is_at_the_node_only_if_asked():
    first, again = trained("node", rounds=2), trained("node", rounds=2)
    for name, array in first.arrays.items():
        assert array.numpy().tobytes() == again.arrays[name].numpy().tobytes()
    assert accuracy(trained("node", 4, 5)) > 0.85  # steps that are lost are left out
    with pytest.raises(TooFewReports):
        trained("node", 1)


def test_lost_steps_of_shared_noise_never_cost_a_second_plan():
    """One of ten steps is asked again by the spare, the next one with what is left of it."""
    found = trained("shared", 3, 6, 8, 9)
    assert accuracy(found) > 0.85
    lost = [number for number, step in enumerate(found.steps) if number and not step.reports]
    assert lost == [3, 6, 8, 9]
    assert (found.privacy.epsilon, found.privacy.delta) == (20.0, 1e-6)


def test_arguments_without_effect_are_errors():
    made = partial(LdpFedAvg, epsilon=1.0)
    with pytest.raises(ValueError, match="Expected a network with noise='node'"):
        made(noise="node")
    for name, value in [("clip", 1.0), ("local_steps", 3), ("sparsity", 2), ("model", "net")]:
        with pytest.raises(ValueError, match=f"Expected no {name} with noise='shared'"):
            made(noise="shared", network=network(), **{name: value})
    with pytest.raises(ValueError, match="Expected no train_config"):
        made(noise="node", network=network()).start(None, train_config=ConfigRecord({"a": 1}))
    with pytest.raises(ValueError, match="delta"):
        made(network=network(), delta=1e-9)
    for noise in ("node", "shared"):
        with pytest.raises(ValueError, match="LdpFedAvg"):
            RecordDpSgd(network(), epsilon=1.0, delta=1e-6, num_rounds=2, noise=noise)


def test_too_few_users_are_refused_with_the_number_that_is_enough():
    strategy = LdpFedAvg(epsilon=0.5, network=network(), noise="node")
    few = strategy.refusal(USERS, num_nodes=NODES)
    assert few.reason == "noise" and "8 parameters" in few.why
    assert strategy.refusal(few.needed, num_nodes=NODES) is None
    assert strategy.refusal(few.needed - 1, num_nodes=NODES) is not None
    forced = LdpFedAvg(epsilon=0.5, network=network(), noise="node", force=True)
    assert forced.refusal(USERS, num_nodes=NODES) is None


def test_a_plan_states_the_noise_of_a_run():
    strategy = LdpFedAvg(epsilon=20.0, network=network(), noise="node")
    setting = Setting(num_users=USERS, num_features=2 * DIM, num_nodes=NODES)
    found = expectation(LdpFedAvg(epsilon=20.0, network=network()).with_noise("node"), setting)
    assert found == expectation(strategy, setting)
    assert found.value == pytest.approx(trained("node", rounds=1).noise_to_signal)
    assert found.rounds == networks.STEPS
    with pytest.raises(WouldRefuse):
        expectation(LdpFedAvg(epsilon=0.1, network=network(), noise="shared"), setting)
