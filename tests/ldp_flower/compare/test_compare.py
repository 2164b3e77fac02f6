"""An app under all methods: cells, their file, the table, the figure, and what is refused."""

import csv
import io
import math
import re
from functools import partial

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from rich.console import Console
from tiny_model import INITIAL, NODES, evaluate, make_app, trained

from ldp_flower.accounting import noise_multiplier_epsilon
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.compare import METHODS, CannotCompareError, compare, local_dp_multiplier
from ldp_flower.strategies import LdpFedAvg

ROUNDS = 2


def run(app=None, judge=evaluate, *, calls=None, **options):
    known = {"epsilons": [4.0, 8.0], "seeds": 2, "rounds": ROUNDS} | options
    app = make_app(calls) if app is None else app
    return compare(app, INITIAL, judge, NODES, **known)


@pytest.fixture(scope="module")
def found():
    return run()


@pytest.mark.slow
def test_every_method_is_run_at_every_epsilon_and_seed(found):
    cells = {(cell["method"], cell["epsilon"], cell["seed"]) for cell in found.cells}
    expected = set()
    for name, private in METHODS.items():
        if name != "DP-SGD":
            expected |= {(name, e, s) for e in (["4", "8"] if private else ["inf"]) for s in "01"}
    assert cells == expected
    scores = {line.method: line.mean for line in found.lines if line.epsilon in (8, math.inf)}
    assert found.metric == "accuracy"
    # A score of 1,000 test rows has a standard deviation of 0.016: six of them.
    assert min(scores["LdpFedAvg"], scores["FedAvg"]) > scores["untrained"] + 0.1
    assert all(line.failures == 0 for line in found.lines)


def test_true_epsilons_are_those_of_the_accounting(found):
    for line in found.lines:
        if line.method == "LocalDpMod, nominal":
            noise = local_dp_multiplier(line.epsilon, 1e-5)
            assert line.true_epsilon == pytest.approx(noise_multiplier_epsilon([noise], 1e-5))
            assert line.true_epsilon > 1.9 * line.epsilon and line.delta == 1e-5
        elif line.method == "LdpFedAvg":
            assert (line.true_epsilon, line.delta) == (line.epsilon, 0)
            assert (line.trusted, line.unit, line.bytes_per_node) == (
                "nobody",
                "user",
                1 if line.epsilon <= 4 else 2,
            )
        elif line.method in ("FedAvg", "untrained"):
            assert line.unit == "nothing"
        else:
            assert line.true_epsilon == pytest.approx(line.epsilon, rel=1e-6)


def test_fedavg_is_the_mean_of_what_the_app_trains(found):
    """Arrays without dimensions are trained like others, and counters stay as they were."""
    weights, bias = np.zeros((5, 1)), 0.0
    for _ in range(ROUNDS):
        models = [trained(weights, bias, node) for node in range(NODES)]
        weights = np.mean([each for each, _ in models], axis=0)
        bias = np.mean([each for _, each in models])
    expected = evaluate(0, ArrayRecord([weights, np.array(bias), np.array([7])]))["accuracy"]
    (line,) = [line for line in found.lines if line.method == "FedAvg"]
    assert line.scores == (expected, expected) and line.bytes_per_node == ROUNDS * 6 * 8


def test_table_and_figure_show_the_same_numbers(found, tmp_path):
    rows = {(row[0], row[1]): row for row in found.rows()}
    assert rows["DP-FedAvg, clients clip", "4"][1:] == rows["DP-FedAvg", "4"][1:]
    figure = found.figure()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    assert len(labels) == 6
    for handle, method in zip(handles, labels, strict=True):
        lines = [line for line in found.lines if line.method == method]
        for line in lines:
            asked = f"{line.epsilon:g}" if math.isfinite(line.epsilon) else ""
            error = np.std(line.scores, ddof=1) / math.sqrt(2)
            assert rows[method, asked][5] == f"{np.mean(line.scores):.3f} ({error:.3f})"
        drawn = handle.get_ydata() if len(lines) == 1 else handle.lines[0].get_ydata()
        assert set(drawn) == {line.mean for line in lines}
    table, picture, shown = found.write(tmp_path)
    assert picture.stat().st_size > 5_000
    assert "| LdpFedAvg | 8 | 8 | nobody | node, pure |" in table.read_text()
    assert "accuracy: mean (standard error) over 2 seeds" in table.read_text()
    cells = re.findall("<td[^>]*>(.*?)</td>", shown.read_text())
    assert cells == [cell for row in found.rows() for cell in row]
    assert found._repr_html_() in shown.read_text()


@pytest.mark.parametrize("width", [60, 80])
def test_no_word_of_the_table_is_cut_on_a_narrow_screen(found, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(found)
    words = console.export_text().split()
    for row in (found.head, *found.rows()):
        assert set(" ".join(row).split()) <= set(words)


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path):
    """Three interruptions: by the user in training, a line half written, and more seeds."""
    file, calls = tmp_path / "cells.csv", []
    options = {"methods": ["FedAvg", "DP-FedAvg"], "epsilons": [4.0], "path": file}

    class Impatient(list):
        def append(self, call):
            super().append(call)
            if len(self) > 51 + 1.5 * ROUNDS * NODES:  # in the second cell
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(seeds=1, calls=Impatient(), **options)
    assert len(list(csv.DictReader(file.open()))) == 1
    first = run(seeds=1, calls=calls, **options)
    assert 51 + ROUNDS * NODES <= len(calls) <= 51 + 1 + ROUNDS * NODES
    assert first.cells == run(seeds=1, calls=calls, **options).cells

    calls.clear()
    whole = file.read_bytes()
    file.write_bytes(whole[: -len(whole.splitlines()[-1]) // 2])
    again = run(seeds=1, calls=calls, **options)
    assert len(calls) > ROUNDS * NODES
    assert [line.scores for line in again.lines] == [line.scores for line in first.lines]

    calls.clear()
    assert len(run(seeds=2, calls=calls, **options).cells) == 4
    assert len([call for call in calls if call[1] == ROUNDS]) == 2 * NODES


def test_another_setting_is_another_cell(tmp_path):
    options = {"methods": ["untrained", "LdpFedAvg"], "epsilons": [8.0], "seeds": 1}
    options["path"] = tmp_path / "cells.csv"

    def cells():
        return len(list(csv.DictReader(options["path"].open())))

    run(**options)
    assert cells() == 2
    run(**options, strategy=partial(LdpFedAvg, model="net"))
    assert cells() == 3  # what has nothing to do with LdpFedAvg stays
    run(**options, name="other")
    assert cells() == 5


def test_what_ldp_fedavg_refuses_is_shown_with_its_reason():
    found = run(methods=["LdpFedAvg"], epsilons=[0.1], seeds=1)
    assert [row[5] for row in found.rows()] == ["refused"]
    assert "the noise would drown the model" in found.markdown()
    assert not found.figure().axes[0].get_legend_handles_labels()[1]


def test_dp_sgd_is_the_apps_own(found):
    asked = []

    def dp_sgd(epsilon, delta, rounds):
        asked.append((epsilon, delta, rounds))
        return make_app()

    mine = run(methods=["DP-SGD"], dp_sgd=dp_sgd, seeds=1)
    assert asked == [(4.0, 1e-5, ROUNDS), (8.0, 1e-5, ROUNDS)]
    (fedavg,) = [line.scores[0] for line in found.lines if line.method == "FedAvg"]
    assert [(line.unit, line.trusted, line.mean) for line in mine.lines] == [
        ("record", "nobody", fedavg)
    ] * 2


def test_failed_trainings_count_as_zero_and_are_told(caplog):
    app, half = ClientApp(), NODES // 2

    @app.train()
    def train(message, context):
        weights, bias, counter = message.content["arrays"].to_numpy_ndarrays()
        if context.node_config["partition-id"] >= half:
            raise RuntimeError("no data")
        content = RecordDict({"arrays": ArrayRecord([weights + 1, bias, counter])})
        return Message(content, reply_to=message)

    seen = []

    def judge(server_round, arrays):
        seen.append(arrays.to_numpy_ndarrays()[0])
        return MetricRecord({"score": 0.0})

    found = run(app, judge, methods=["FedAvg"], seeds=1)
    np.testing.assert_allclose(seen[-1], ROUNDS / 2)
    (note,) = found.notes
    assert note.startswith(f"FedAvg: {ROUNDS * half} trainings of a run failed and counted as 0: ")
    assert "no data" in note
    (line,) = run(app, judge, methods=["LdpFedAvg"], epsilons=[8.0], seeds=1).lines
    assert line.failures == half and "RuntimeError: no data" in line.notes
    assert "no data" not in caplog.text  # told once, not by every node


@pytest.mark.parametrize("method", ["FedAvg", "LdpFedAvg"])
def test_models_of_another_shape_are_counted_alike(method):
    app = ClientApp()

    @app.train()
    def train(message, context):
        weights, bias, counter = message.content["arrays"].to_numpy_ndarrays()
        if context.node_config["partition-id"] == 3:
            weights = weights[1:]
        content = RecordDict({"arrays": ArrayRecord([weights + 1, bias, counter])})
        return Message(content, reply_to=message)

    (line,) = run(app, methods=[method], epsilons=[8.0], seeds=1, rounds=1).lines
    assert line.failures == 1 and "of shape (5, 1), got (4, 1)" in line.notes


# --------------------------------------------------------------------------- refusals


def without_train():
    return ClientApp()


def failing():
    app = ClientApp()

    @app.train()
    def train(message, context):
        raise OSError("no such file: rows.csv")

    return app


def private():
    app = ClientApp(mods=[LdpUpdateMod()])
    app.train()(lambda message, context: message)
    return app


def other_arrays():
    app = ClientApp()

    @app.train()
    def train(message, context):
        return Message(RecordDict({"arrays": ArrayRecord([np.zeros(2)])}), reply_to=message)

    return app


def idle():
    app = ClientApp()

    @app.train()
    def train(message, context):
        return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)

    return app


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (without_train, r"No train function.*@app.train\(\)"),
        (failing, "no such file: rows.csv"),
        (private, "without LdpUpdateMod"),
        (other_arrays, "holds .'0', '1'., got"),
        (idle, "updates of length 0"),
    ],
)
def test_an_app_that_cannot_be_compared_is_told_what_to_change(make, text):
    with pytest.raises(CannotCompareError, match=text):
        run(make())


@pytest.mark.parametrize(
    ("judge", "options", "text"),
    [
        (None, {}, "Expected at least one number as a metric.*evaluate_fn"),
        (lambda number, arrays: None, {}, "Expected at least one number as a metric"),
        (lambda number, arrays: 1 / 0, {}, "evaluate_fn failed: ZeroDivisionError"),
        (evaluate, {"metric": "f1"}, "Expected metric in .*accuracy.*got 'f1'"),
    ],
)
def test_a_model_that_cannot_be_judged_is_refused(judge, options, text):
    with pytest.raises(CannotCompareError, match=text):
        run(judge=judge, **options)


def test_the_apps_own_evaluation_is_asked_where_the_server_has_none():
    app = make_app()

    @app.evaluate()
    def on_node(message, context):
        node = context.node_config["partition-id"]
        metrics = MetricRecord({"num-examples": 1 + (node == 0), "partition": node})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    found = run(app, None, methods=["untrained"], seeds=1)
    assert found.metric == "partition"
    assert found.lines[0].mean == pytest.approx(NODES * (NODES - 1) / 2 / (NODES + 1))


def test_nodes_that_evaluate_on_no_example_are_said():
    app = make_app()

    @app.evaluate()
    def on_node(message, context):
        metrics = MetricRecord({"num-examples": 0, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    with pytest.raises(CannotCompareError, match="Expected at least one number as a metric"):
        run(app, None, methods=["untrained"], seeds=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilons": [-1.0]}, "Expected epsilon > 0"),
        ({"epsilons": []}, "Expected epsilons"),
        ({"seeds": 0}, "seeds >= 1"),
        ({"rounds": 0}, "rounds >= 1"),
        ({"delta": 0.1}, "delta < 1 / num_nodes"),
        ({"clip": 0.0}, "clip"),
        ({"methods": ["DP-SDG"]}, "methods"),
        ({"methods": ["DP-SGD"]}, "Expected dp_sgd"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_trained(options, text):
    calls = []
    with pytest.raises(ValueError, match=text):
        run(calls=calls, **options)
    assert not calls
