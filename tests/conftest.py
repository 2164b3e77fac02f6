import logging
import os
import shutil

import pytest


def pytest_runtest_setup(item):
    """Leave out tests of the sandbox where there is none, unless the caller requires them."""
    if item.get_closest_marker("sandbox") and shutil.which("bwrap") is None:
        required = os.environ.get("LDP_FLOWER_REQUIRE_SANDBOX")
        (pytest.fail if required else pytest.skip)("bubblewrap is not installed")


@pytest.fixture(autouse=True)
def loggers_stay_on():
    """Fail the test that leaves warnings of the library unlogged: others read them."""
    yield
    names = [name for name in logging.root.manager.loggerDict if name.startswith("ldp_flower")]
    off = [name for name in names if not logging.getLogger(name).isEnabledFor(logging.WARNING)]
    assert not off, f"Loggers that were left off: {off}."
