"""The pages docs/explorer.md, with its numbers, and docs/one-report.md, in a browser."""

import fcntl
import json
import math
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ldp_flower.planning import Setting, expectation
from ldp_flower.randomizers import KRandomizedResponse
from ldp_flower.strategies import Means

DOCS = Path(__file__).parents[1] / "docs"
GRID = json.loads((DOCS / "figures" / "explorer.json").read_text("utf-8"))
CONF = runpy.run_path(str(DOCS / "conf.py"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(DOCS / "figures" / "explorer.py"))


def test_the_grid_is_that_of_the_page(made):
    assert GRID["axes"] == {name: list(values) for name, values in made["AXES"].items()}
    assert GRID["limits"] == made["LIMITS"]


@pytest.mark.slow
@pytest.mark.parametrize("question", ["means", "shares"])
def test_errors_of_two_features_are_those_of_todays_plans(made, question):
    kept = np.array(GRID["errors"][question], dtype=float)[:, :, 0, 0]
    assert GRID["axes"]["features"][0] == 2
    protocol = getattr(made["strategies"], made["QUESTIONS"][question])
    found = made["no_worse"](made["curves"](protocol, 2, 1))
    np.testing.assert_array_equal(kept, made["three_digits"](found))


@pytest.mark.parametrize(
    "question",
    ["model", *(pytest.param(name, marks=pytest.mark.long) for name in ("means", "shares"))],
)
def test_all_errors_are_those_of_todays_plans(made, question):
    kept = np.array(GRID["errors"][question], dtype=float)
    np.testing.assert_array_equal(kept, made["errors"](question))


@pytest.mark.long
def test_simulated_errors_are_those_of_todays_plans(made):
    """At one number of features and rows; runs end with other last digits on other machines."""
    found = made["curves"](made["strategies"].PrivateRegression, 10, 1)
    places = GRID["axes"]["features"].index(10), GRID["axes"]["rows"].index(1)
    kept = np.array(GRID["errors"]["regression"], dtype=float)[:, :, *places]
    np.testing.assert_allclose(kept, made["no_worse"](found), rtol=0.02)


class Browser:
    """Chromium, told what to do over a pipe."""

    def __init__(self, width):
        reads, self._write = os.pipe()
        self._read, writes = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
        self._process = subprocess.Popen(
            [CHROMIUM, *options, "--remote-debugging-pipe"],
            **{"stderr": subprocess.DEVNULL, "pass_fds": (3, 4)},  # which Chromium talks on
            preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)),
        )
        for end in (reads, writes, *ends):
            os.close(end)
        self._number, self._session, self._rest, self._width = 0, None, b"", width

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def ask(self, method, **params):
        """Send a command, and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        told = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._write, json.dumps(told).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                self._rest += os.read(self._read, 1 << 16) or pytest.fail("the browser ended")
            one, _, self._rest = self._rest.partition(b"\0")
            reply = json.loads(one)
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, page):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        shape = {"deviceScaleFactor": 1, "mobile": self._width < 500}
        size = {"width": self._width, "height": 900, **shape}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=page.as_uri())
        for _ in range(1000):
            if self.value("location.protocol + document.readyState") == "file:complete":
                return
        pytest.fail("the page was not loaded")

    def value(self, expression):
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            codes = {"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}
            code = {"key": name, "code": name, "windowsVirtualKeyCode": codes[name]}
            self.ask("Input.dispatchKeyEvent", type=kind, **code)


def page_without_theme(name, folder):
    """Write a page's block of HTML as the site has it, and return its path."""
    text = (DOCS / f"{name}.md").read_text("utf-8")
    (block,) = re.findall(r"```\{raw\} html\n(.*?)```", text, re.DOTALL)
    for path in (DOCS.parent / part for part in CONF["EMBEDDED"][name]):
        block = block.replace(f"<!-- {path.name} -->", path.read_text("utf-8"))
    shutil.copytree(DOCS / "_static", folder / "_static")
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    style = '<link rel="stylesheet" href="_static/site.css">'
    text = f'<!doctype html><meta charset="utf-8">{view}{style}<article>{block}</article>'
    (folder / f"{name}.html").write_text(text, "utf-8")
    return folder / f"{name}.html"


@pytest.fixture(scope="module", params=["explorer", "one-report"])
def page(request, tmp_path_factory):
    return page_without_theme(request.param, tmp_path_factory.mktemp("site"))


@pytest.fixture(params=[1200, 390])
def browser(request):
    if CHROMIUM is None:
        pytest.skip("needs Chromium (chromium of Debian)")
    with Browser(request.param) as browser:
        yield browser


PERSON = "document.querySelector('.explorer-person').textContent"


def caption(question):
    return f"document.querySelector('[data-question={question}] figcaption').textContent"


def test_the_page_by_keyboard_wide_and_on_a_phone(browser, tmp_path):
    browser.open(page_without_theme("explorer", tmp_path))
    assert "at most 88 % of the time" in browser.value(PERSON)
    browser.key("Tab")
    assert browser.value("document.activeElement.name") == "epsilon"
    names = browser.value("document.activeElement.labels[0].textContent")
    assert names.startswith("Epsilon")
    for step in ("ArrowLeft", "ArrowLeft"):
        browser.key(step)
    assert browser.value("document.activeElement.getAttribute('aria-valuetext')") == "1"
    assert f"at most {100 * math.e / (1 + math.e):.0f} % of the time" in browser.value(PERSON)
    browser.key("Tab")
    assert browser.value("document.activeElement.name") == "users"
    before = browser.value(caption("means"))
    browser.key("End")
    setting = Setting(num_users=1_000_000, num_features=10)
    error = 100 * expectation(Means.planned_for(setting, 1.0), setting).value
    told = browser.value(caption("means"))
    assert told != before
    number = float(re.search(r"± (\S+) %", told)[1])
    assert number == pytest.approx(error, rel=0.05)  # two digits
    browser.key("Home")
    assert "refused, before anybody is asked. It takes" in browser.value(caption("regression"))
    # Every picture says in words what it shows, and nothing is wider than the screen.
    labels = "[...document.querySelectorAll('svg')].map(each => each.getAttribute('aria-label'))"
    captions = "[...document.querySelectorAll('figcaption')].map(each => each.textContent)"
    assert browser.value(labels) == browser.value(captions) and len(browser.value(labels)) == 4
    assert browser.value("document.documentElement.scrollWidth <= window.innerWidth")
    high = "[...document.querySelectorAll('input')].every(each => each.offsetHeight >= 24)"
    assert browser.value(high)


def shown(name):
    return f"document.querySelector('[data-show={name}]').textContent"


def pressed(name):
    return f"document.querySelector('[name={name}]').click()"


def test_a_report_is_drawn_in_the_browser(browser, tmp_path):
    browser.open(page_without_theme("one-report", tmp_path))
    assert "nothing yet" in browser.value(shown("leaves"))
    browser.value(pressed("next"))
    first = json.loads(browser.value(shown("leaves")))
    assert re.fullmatch(r"0[0-3]00000000", first["payload"])
    assert "the answer pear" in browser.value(shown("stays"))
    assert "1 of 4 spent" in browser.value(shown("stays"))
    browser.value(pressed("same"))
    assert json.loads(browser.value(shown("leaves"))) == first
    assert "1 of 4 spent" in browser.value(shown("stays"))
    for _ in range(4):
        browser.value(pressed("next"))
    assert json.loads(browser.value(shown("leaves")))["error"][0] == 102
    assert "depends on the ledger only" in browser.value(shown("reads"))
    browser.value(pressed("many"))
    cells = "[...document.querySelectorAll('tbody tr')].map(row => row.innerText.split('\\t'))"
    law = KRandomizedResponse(1.0, 4)
    rows = browser.value(cells)
    assert [name for _, name, *_ in rows] == ["apple", "pear", "plum", "no answer"]
    own = float(law.own)
    for byte, (_, _, percent, count) in enumerate(rows):
        share = own if byte == 1 else (1 - own) / 3
        assert float(percent.split()[0]) == pytest.approx(100 * share, abs=0.051)
        # 6 standard errors of the browser's own randomness.
        assert abs(int(count) - 1000 * share) < 6 * math.sqrt(1000 * share * (1 - share))
    assert browser.value("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_page_loads_nothing_from_elsewhere(page):
    text = page.read_text("utf-8")
    for each in (text, *(path.read_text("utf-8") for path in (DOCS / "_static").glob("*.js"))):
        assert set(re.findall(r"https?://[^\s\"']*", each)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"[\"'(]//", each)
        assert not re.search(r"\b(?:fetch|XMLHttpRequest|import|WebSocket|sendBeacon)\b", each)
