"""Callbacks of a run: when they are called, with what, and what becomes of their errors."""

import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import MetricRecord

from ldp_flower import InProcessGrid, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import Means, Result, TooFewReports
from ldp_flower.strategies.runtime.progress import MAX_ESTIMATES, Progress
from ldp_flower.strategies.runtime.result import Estimates

SCHEMA = Schema({"x": Numeric(0, 1)})
PEOPLE = SCHEMA.users({"x": np.arange(3000) % 7 / 6})
MEANS = Means(SCHEMA, "x", epsilon=2.0)


def values(progress, name):
    """Return the samples of one gauge, with the values of their labels but the strategy's."""
    (gauge,) = (each for each in progress.gauges() if each.name == f"ldp_flower_server_{name}")
    samples = []
    for labels, value in gauge.samples:
        own = dict(labels)
        assert own.pop("strategy") == progress.strategy
        samples.append((*own.values(), value))
    return samples


def test_callbacks_see_the_census_each_step_and_the_result():
    seen = []
    result = simulate(MEANS, PEOPLE, seed=0, callbacks=[seen.append])
    assert [each.number for each in seen] == list(range(len(result.steps)))
    assert [each.finished for each in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].result is result and not any(each.error for each in seen)
    assert [len(each.result.steps) for each in seen] == [1 + each.number for each in seen]
    assert seen[0].metrics() == {} and values(seen[0], "users") == [(3000,)]
    for each in seen[1:]:
        assert each.metrics()["reports"] == result.steps[each.number].reports
        assert each.metrics()["epsilon-spent"] == 2.0
    last = seen[-1]
    assert values(last, "epsilon") == [(2.0,)] and values(last, "running") == [(0,)]
    assert values(last, "estimate") == [("x", result.means.item())]
    assert values(last, "std_error") == [("x", result.std_error.item())]
    assert 0 < seen[0].seconds < last.seconds


def test_a_run_has_the_same_bits_with_callbacks():
    found = simulate(MEANS, PEOPLE, seed=0, callbacks=[lambda progress: progress.gauges()])
    np.testing.assert_equal(found.to_dict(), simulate(MEANS, PEOPLE, seed=0).to_dict())


def test_a_failing_callback_is_logged_once_and_the_run_goes_on(caplog):
    seen = []

    def failing(progress):
        seen.append(progress)
        raise OSError("the tracker is gone")

    app = LdpClientApp(lambda context: PEOPLE, seed=0)
    with caplog.at_level(logging.ERROR, "flwr"):
        result = MEANS.start(InProcessGrid(app, 1), seed=0, callbacks=[failing, seen.append])
    assert result.num_reports == 3000 and len(seen) == 1 + len(result.steps)
    (record,) = caplog.records
    assert "not called again" in record.message and "tracker is gone" in caplog.text


def test_callbacks_hear_why_a_run_has_failed():
    seen = []
    with pytest.raises(TooFewReports) as raised:
        simulate(MEANS, PEOPLE[:3], seed=0, callbacks=[seen.append])
    (progress,) = seen
    assert progress.error is raised.value and not progress.finished
    assert values(progress, "failed") == [(1,)] and values(progress, "running") == [(0,)]


def test_refusals_are_counted_by_code():
    """Of two nodes, the second allows no epsilon of 2; code 102 and others come from nodes."""
    policies = {0: PrivacyPolicy(4.0), 1: PrivacyPolicy(1.0)}
    seen = []

    def answer(message, context):
        node = int(context.node_config["partition-id"])
        app = LdpClientApp(lambda _: PEOPLE.partition(node, 2), policies[node], seed=0)
        return app(message, context)

    MEANS.start(InProcessGrid(answer, 2), seed=0, callbacks=[seen.append])
    refused = sum(step.errors for step in seen[-1].result.steps)
    assert refused > 0 and sum(n for _, n in values(seen[-1], "errors")) == refused
    assert {code for code, _ in values(seen[-1], "errors")} <= {"101", "102"}


def test_labels_are_few_whatever_nodes_and_results_say():
    result = Wide(strategy="S")
    codes = Counter({code: 1 for code in (-1, 8, 102, 10**9, -(10**9))})
    progress = Progress(strategy="S", result=result, finished=True, errors=codes)
    assert dict(values(progress, "errors")) == {"-1": 1, "8": 1, "102": 1, "other": 2}
    assert len(values(progress, "estimate")) == len(values(progress, "std_error")) == MAX_ESTIMATES
    assert "1" not in dict(values(progress, "estimate"))  # no number: nothing to draw


class Wide(Result):
    """A result with many estimates, one of which is missing."""

    def estimates(self):
        found = np.arange(1000.0)
        found[1] = np.nan
        return Estimates([str(n) for n in range(1000)], found, np.ones(1000))


def test_the_servers_own_evaluation_is_among_the_metrics():
    result = Result(strategy="S")
    result.evaluate_metrics_serverapp[0] = MetricRecord({"accuracy": 0.5, "curve": [0.1, 0.2]})
    progress = Progress(strategy="S", result=result)
    assert progress.metrics() == {"evaluate.accuracy": 0.5}
    assert replace(progress, result=Result()).metrics() == {}


@pytest.mark.parametrize("callbacks", [print, "abc", [None], 3])
def test_what_is_no_list_of_functions_is_refused_before_anybody_is_asked(callbacks):
    with pytest.raises(ValueError, match="Expected callbacks to be a list of functions, got "):
        simulate(MEANS, PEOPLE, seed=1, callbacks=callbacks)
