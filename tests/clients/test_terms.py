"""The seed of a run: a simulation's clients take it, no other client looks at it."""

import numpy as np
import pytest
from deployed_node import ask, query, report_in, users
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpClientApp, LdpUpdateMod, Refusal
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.guarantee.training import with_query
from ldp_flower.questions import NormalisedUpdate
from ldp_flower.randomizers import Codebook

PATIENTS = users(8)


def users_app(seed):
    return LdpClientApp(lambda context: PATIENTS, seed=seed)


def training_app(seed):
    app = ClientApp(mods=[LdpUpdateMod(seed=seed)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(RecordDict({"model": ArrayRecord([np.ones(4)])}), reply_to=message)

    return app


def asked_of_users():
    return query(1).to_record_dict(), "query.report"


def asked_of_training():
    question = Query(NormalisedUpdate(), Codebook(2.0, 4), 7, 0, HASH_END, 1)
    return with_query(RecordDict({"model": ArrayRecord([np.zeros(4)])}), question), "train"


APPS = pytest.mark.parametrize(
    ("app_of", "asked"),
    [(users_app, asked_of_users), (training_app, asked_of_training)],
    ids=["LdpClientApp", "LdpUpdateMod"],
)


def simulated(app, asked, run_config):
    """Return the reply of the one node of a simulation."""
    content, kind = asked()
    (reply,) = InProcessGrid(app, 1, run_config).send_and_receive([Message(content, 1, kind)])
    return reply


@APPS
def test_in_a_simulation_the_seed_of_the_run_is_as_one_that_is_given(app_of, asked):
    def report(seed, run_config):
        return report_in(simulated(app_of(seed), asked, run_config))

    assert report("run", {"seed": 11}) == report(11, {})
    assert report("run", {"seed": 11}) != report("run", {"seed": 12})


@APPS
@pytest.mark.parametrize("run_config", [{}, {"seeds": 5}, {"seed": "5"}, {"seed": True}])
def test_a_simulation_whose_run_has_no_seed_is_refused(app_of, asked, run_config):
    reply = simulated(app_of("run"), asked, run_config)
    assert reply.error.code == Refusal.MISCONFIGURED
    assert 'no integer under the key "seed"' in reply.error.reason


def test_a_deployment_takes_no_seed_from_its_server(tmp_path):
    """The server of a run writes its configuration: reports must not follow from it."""
    reports = []
    for node in ("one", "other"):
        SqliteLedger.create(tmp_path / node)
        node_config = {"max-epsilon": 1.0, "ledger-path": str(tmp_path / node)}
        app = users_app("run")
        census = ask(app, None, node_config, {"seed": 11}).content["census"]
        assert census["seeded"] == 0 and census["simulated"] == 0
        reply = ask(app, query(1), node_config, {"seed": 11})
        reports.append(Report.from_record_dict(reply.content).to_bytes())
    assert reports[0] != reports[1]


@pytest.mark.parametrize("seed", ["Run", "", 1.0, np.zeros(2)])
@pytest.mark.parametrize("of", [users_app, training_app])
def test_another_word_is_no_seed(of, seed):
    with pytest.raises(ValueError, match="Expected seed to be an integer, a function or"):
        of(seed)
