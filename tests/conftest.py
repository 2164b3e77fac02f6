import logging

import pytest


@pytest.fixture(autouse=True)
def the_log_is_on():
    """Turn the log on again, which commands of studies turn off for their process."""
    yield
    logging.disable(logging.NOTSET)
