"""The README's code runs as it is printed."""

import re
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import r2_score

from ldp_flower import InProcessGrid

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PEOPLE, FIRST, TABLE, STATISTICS, MOD, TRAINING, RESEARCH = BLOCKS
FEW = 6  # lines of code to begin with, in each way


def test_each_way_begins_with_a_few_lines():
    for block in re.findall(r"```(?:python|shell)\n(.*?)```", README, re.DOTALL):
        assert len([line for line in block.splitlines() if line]) <= FEW, block


def test_the_figures_caption_has_the_numbers_of_the_flights_table():
    page = Path(__file__).parents[1] / "simulations" / "flights" / "README.md"
    rows = re.findall(r"^\| ([\d.]+) \| (0\.\d+) \|", page.read_text("utf-8"), re.MULTILINE)
    median = {float(epsilon): round(100 * float(r2)) for epsilon, r2 in rows}
    caption = README[README.index("*Arrival delays") : README.index("## Five ways in")]
    told = re.findall(
        r"(\d+) % (?:of the variance on 807 other aircraft )?at (?:epsilon )?(\d)", caption
    )
    assert {float(epsilon): int(percent) for percent, epsilon in told} == {
        epsilon: median[epsilon] for epsilon in (1, 2, 4) if epsilon in median
    }
    assert ("refused at 1" in caption) == (1 not in median)


def test_the_research_example(capsys):
    names: dict[str, object] = {}
    exec(PEOPLE + RESEARCH, names)
    assert names["result"].support.tolist() == [3, 40]
    assert np.linalg.norm(names["result"].coef[[3, 40]] - [0.6, -0.8]) < 0.06
    assert not names["result"].notes and abs(names["result"].intercept - 3) < 0.3
    assert "epsilon = 2 per user 60000" in capsys.readouterr().out


def test_the_first_example_prints_what_the_page_shows(capsys):
    names: dict[str, object] = {}
    exec(PEOPLE + FIRST, names)
    shown = README.partition("```text\n")[2].partition("```")[0]
    assert capsys.readouterr().out == shown
    means = names["people"].groupby("job")["wage"].mean()
    assert f"The true means are {means['office']:.1f} and {means['shop']:.1f}." in README


def test_the_examples_with_a_table(capsys):
    names: dict[str, object] = {}
    exec(PEOPLE + FIRST + TABLE, names)
    assert "job=office" in capsys.readouterr().out
    predicted = names["model"].predict(names["people"])
    # Without privacy R2 is .70; all of 12 other seeds have .65 to .70.
    assert r2_score(names["wage"], predicted) > 0.6
    exec(STATISTICS, names)
    described, quantiles = capsys.readouterr().out.split("quantile 0.1 of wage", 1)
    assert re.search(r"^ +mean +\d\S*\s±\s\d\S* +\d", described, re.MULTILINE)
    # Intervals cover with .95 each; standard errors are some .5.
    lowest, highest = (float(each) for each in re.findall(r"([\d.]+) \(", quantiles))
    assert abs(lowest - np.quantile(names["wage"], 0.1)) < 3
    assert abs(highest - np.quantile(names["wage"], 0.9)) < 3


def test_the_mod_for_an_existing_app():
    names = {"ClientApp": ClientApp}
    exec(MOD, names)
    assert len([line for line in MOD.splitlines() if line.strip()]) == 2
    seen = []

    @names["app"].train()
    def train(message: Message, context: Context) -> Message:
        weights = message.content["arrays"].to_numpy_ndarrays()[0]
        seen.append(set(message.content))
        content = RecordDict({"arrays": ArrayRecord([np.add(weights, [1.0, 0.0])])})
        return Message(content, reply_to=message)

    class Net:
        def state_dict(self):
            return [np.zeros(2)]

    grid = InProcessGrid(names["app"], 300)
    server = {"grid": grid, "net": Net(), "ArrayRecord": ArrayRecord}
    exec(TRAINING, server)
    assert seen == [{"arrays", "config"}] * 300
    weights = server["result"].arrays.to_numpy_ndarrays()[0]
    assert weights[0] > 10 and abs(weights[1]) < 10
    assert server["result"].privacy.epsilon == 4.0


def test_the_commands_are_those_that_are_run_and_tested():
    commands = re.findall(r"^pip install .*$", README, re.MULTILINE)
    assert commands == [
        'pip install -e ".[sim]" -c constraints.txt',
        'pip install -e ".[sim]" -c constraints.txt && ldp-flower run simulations/flights',
        'pip install -e ".[sim,test,torch]" -c constraints.txt && pytest -n 2 --dist loadfile',
    ]
    ci = (Path(__file__).parents[1] / ".ci" / "run").read_text("utf-8")
    assert commands[2] in ci
