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
def logging_stays_as_it_was():
    """Fail the test that leaves loggers off: others read what is logged."""
    yield
    off = [
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith(("ldp_flower", "flwr"))
        and isinstance(logger, logging.Logger)
        and (logger.disabled or not logger.propagate and name != "flwr" or logger.level > 30)
    ]
    assert not off and not logging.root.manager.disable, f"Loggers are off: {off}."
