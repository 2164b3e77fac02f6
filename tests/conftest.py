import logging
import os

import pytest

# Workers that share the cores: with threads for each core, each waits for the others' longer than
# it computes (a LeNet's gradients in test_one_record.py: 1 s instead of .02). Before NumPy loads.
if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True, scope="session")
def one_of_flowers_processes():
    """Give the process an identity, without which no message can be made."""
    from flwr.supercore.task_identity import TaskIdentity  # after the setting above

    if vars(TaskIdentity)["_run_id"] is None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1


@pytest.fixture(autouse=True)
def the_log_is_on():
    """Turn the log on again, which commands of studies turn off for their process."""
    yield
    logging.disable(logging.NOTSET)
