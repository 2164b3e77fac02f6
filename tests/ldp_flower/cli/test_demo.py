"""``ldp-flower demo``: one command, one picture, one page."""

import re
import runpy
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from ldp_flower.cli.app import app

ROOT = Path(__file__).parents[3]


def invoke(*arguments):
    return CliRunner().invoke(app, ["demo", *arguments], env={"COLUMNS": "120"})


def test_the_demo_shows_what_is_sent_the_estimate_and_the_truth(tmp_path):
    page = tmp_path / "demo.html"
    done = invoke("--seed", "0", "--output", str(page))
    assert done.exit_code == 0, done.output
    assert "4,043 aircraft" in done.output and "is right at most 88.1 %" in done.output
    rows = re.findall(r"(-?[\d.]+) ± ([\d.]+) %\s+([\d.]+) %", done.output)
    assert len(rows) == 16
    # Of 16 estimates one is 4 standard errors off in one of a thousand seeds.
    for estimate, error, truth in rows:
        assert abs(float(estimate) - float(truth)) < 4 * float(error) + 0.1
    text = page.read_text("utf-8")
    assert "<svg" in text and "D942DN flies for Delta Air Lines" in text
    again = invoke("--seed", "0", "--output", str(page))
    assert again.output == done.output


def test_what_cannot_work_is_said_and_writes_nothing(tmp_path):
    page = tmp_path / "demo.html"
    done = invoke("--epsilon", "0.05", "--output", str(page))
    assert done.exit_code == 2 and "users are needed" in done.output and not page.exists()
    done = invoke("--output", str(tmp_path / "no" / "demo.html"))
    assert done.exit_code == 1 and "Choose another --output" in done.output


def test_the_table_is_what_its_script_makes():
    made = runpy.run_path(str(ROOT / "docs" / "figures" / "aircraft.py"))["aircraft"]()
    pd.testing.assert_frame_equal(made, pd.read_csv(ROOT / "ldp_flower" / "cli" / "aircraft.csv"))
