"""What the tests of the simulations share: these are run from the repository, not installed."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Some import `word_sources` from the tests of the library's mechanisms.
sys.path.insert(0, str(ROOT / "tests/ldp_flower/randomizers"))


@pytest.fixture
def repository_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "simulations"]:
        del sys.modules[name]
