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
def the_log_is_on():
    """Turn the log on again, which commands of studies turn off for their process."""
    yield
    logging.disable(logging.NOTSET)
