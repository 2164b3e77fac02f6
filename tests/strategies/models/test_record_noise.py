"""The noise that a plan of RecordDpSgd tells, before and after a run."""

import math

import numpy as np
import pytest

from ldp_flower import InProcessGrid, plan
from ldp_flower.clients import NetworkClientApp
from ldp_flower.planning import WouldRefuse
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.strategies import RecordDpSgd, Result
from ldp_flower.strategies.models.record_dp_sgd import linear_network
from ldp_flower.strategies.models.record_noise import RecordNoise

PLAN = {"epsilon": 2.0, "delta": 1e-5, "num_rounds": 1, "steps": 2, "sampling_rate": 1.0}


def test_the_noise_of_a_run_is_what_the_plan_says():
    """All targets are 0, so that the gradient is: what is trained is noise alone."""
    dim, silos, records = 300, 4, 25
    rows = np.zeros((records, dim), np.float32), np.zeros(records, np.float32)
    app = NetworkClientApp(lambda context: rows, seed=1)
    strategy = RecordDpSgd(linear_network(dim), **PLAN, learning_rate=0.5, force=True)
    result = strategy.start(InProcessGrid(app, silos), num_nodes=silos)
    length = np.linalg.norm(result.network.arrays["weight"])
    # Steps of 0.5 each along a mean gradient of length 1 at most.
    assert length / (0.5 * 2) == pytest.approx(result.noise_to_signal, rel=4 * math.sqrt(0.5 / dim))
    noise = RecordNoise(strategy.plan, dim, silos, silos * records)
    assert noise.noise_to_signal == result.noise_to_signal
    assert result.privacy.seeded and result.privacy.unit == "record" and not result.privacy.exact


@pytest.mark.parametrize("records", [50, 5000])
def test_by_default_all_noise_adds_up_to_one_length_and_steps_are_not_too_long(records):
    """All targets are 0, as above: what is trained is noise alone."""
    dim, silos = 300, 4
    rows = np.zeros((records, dim), np.float32), np.zeros(records, np.float32)
    app = NetworkClientApp(lambda context: rows, seed=1)
    strategy = RecordDpSgd(linear_network(dim), **PLAN, max_grad_norm=3.0, force=True)
    result = strategy.start(InProcessGrid(app, silos), num_nodes=silos)
    length = np.linalg.norm(result.network.arrays["weight"])
    path = min(7 / result.noise_to_signal, 2 * 4)  # two steps of 4 at most
    expected = path * result.noise_to_signal
    assert length == pytest.approx(expected, rel=4 * math.sqrt(0.5 / dim))


def test_more_silos_records_or_steps_are_less_noise():
    def of(silos, records, **changes):
        own = DpSgdPlan(**{**PLAN, "max_grad_norm": 1.0, **changes})
        return RecordNoise(own, 100, silos, records).noise_to_signal

    assert of(4, 4000) == pytest.approx(2 * of(4, 8000)) == pytest.approx(2 * of(1, 4000))
    assert of(4, 4000, epsilon=4.0) < 0.6 * of(4, 4000)
    # At one epsilon, steps and sampling cost as much as they bring, or more.
    assert of(4, 4000, steps=20, sampling_rate=0.2) >= of(4, 4000) * 0.999


def test_a_plan_tells_noise_rounds_and_spends_and_refuses():
    made = plan(
        RecordDpSgd(linear_network(50), **{**PLAN, "num_rounds": 3}),
        num_users=10,
        rows_per_user=400,
    )
    text = repr(made)
    assert "0.1 expect a loss of accuracy" in text and "epsilon at delta 1e-05" in text
    assert "after round 1" in text and "2 after round 3" in text
    page = made.to_html()
    assert "10 silos of 400 records each, with epsilon 2 for each of these" in page
    assert "What it costs each record" in page and "3 answers of its silo" in page
    assert "silos" in made.sentences()[1]
    refused = plan(RecordDpSgd(linear_network(10_000), **PLAN), num_users=10, rows_per_user=9)
    assert refused.expected is None and "The noise would drown the network" in refused.refusal
    enough = int(refused.refusal.split("Enough would be ")[1].split(" records")[0].replace(",", ""))
    strategy = RecordDpSgd(linear_network(10_000), **PLAN)
    ratio, too_large = (strategy._noise(10, n).noise_to_signal for n in (enough, enough - 1))
    assert ratio <= 1 < too_large
    with pytest.raises(WouldRefuse, match="At least 30 silos are needed"):
        few = RecordDpSgd(linear_network(2), **PLAN, min_nodes=30)
        few.expect(plan(few, num_users=10, rows_per_user=100).setting)


def test_a_result_says_what_the_accountant_does():
    rows = np.eye(3, dtype=np.float32), np.zeros(3, np.float32)
    app = NetworkClientApp(lambda context: rows, seed=1)
    strategy = RecordDpSgd(linear_network(3), **{**PLAN, "num_rounds": 2}, force=True)
    result = strategy.start(InProcessGrid(app, 2), num_nodes=2)
    assert "above 0.1, expect a loss of accuracy" in result.notes[0]
    assert list(result.table()["round"]) == ["round 1", "round 2"]
    assert [step.reports for step in result.steps] == [2, 2, 2] and result.num_reports == 4
    assert "with its budget: all of it is spent" in repr(result)
    page = result.to_html()
    assert "Over all 2 rounds together the answers of a silo cost each of its records" in page
    assert "4 reports were used, of 2 silos." in page
    assert "the census, which asks nodes how many records they hold" in page
    again = Result.from_dict(result.to_dict())
    assert np.array_equal(again.network.arrays["weight"], result.network.arrays["weight"])
