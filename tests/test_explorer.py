"""The sliders of docs/explorer.md, in a browser without a window, and their numbers."""

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
from ldp_flower.strategies import Means

DOCS = Path(__file__).parents[1] / "docs"
GRID = json.loads((DOCS / "figures" / "explorer.json").read_text("utf-8"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(DOCS / "figures" / "explorer.py"))


def test_the_grid_is_that_of_the_page(made):
    assert GRID["axes"] == {name: list(values) for name, values in made["AXES"].items()}
    assert GRID["limits"] == made["LIMITS"]


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
        self._number, self._session, self._rest = 0, None, b""

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

    def open(self, page, width):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
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


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the page as the site has it, without the theme around it."""
    text = (DOCS / "explorer.md").read_text("utf-8")
    (block,) = re.findall(r"```\{raw\} html\n(.*?)```", text, re.DOTALL)
    block = block.replace("<!-- explorer.json -->", json.dumps(GRID))
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS / "_static", folder / "_static")
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    style = '<link rel="stylesheet" href="_static/site.css">'
    text = f'<!doctype html><meta charset="utf-8">{view}{style}<article>{block}</article>'
    (folder / "explorer.html").write_text(text, "utf-8")
    return folder / "explorer.html"


@pytest.fixture(params=[1200, 390])
def browser(page, request):
    if CHROMIUM is None:
        pytest.skip("needs Chromium (chromium of Debian)")
    with Browser(request.param) as browser:
        browser.open(page, request.param)
        yield browser


PERSON = "document.querySelector('.explorer-person').textContent"


def caption(question):
    return f"document.querySelector('[data-question={question}] figcaption').textContent"


def test_the_page_by_keyboard_wide_and_on_a_phone(browser):
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


def test_the_page_loads_nothing_from_elsewhere(page):
    for text in (page.read_text("utf-8"), (DOCS / "_static" / "explorer.js").read_text("utf-8")):
        assert set(re.findall(r"https?://[^\s\"']*", text)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"[\"'(]//", text)
        assert not re.search(r"\b(?:fetch|XMLHttpRequest|import|WebSocket|sendBeacon)\b", text)
