import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `guarded_node`


def pytest_collection_modifyitems(items):
    if shutil.which("bwrap") is None:
        here = Path(__file__).parent
        for item in items:
            if item.path.is_relative_to(here):
                item.add_marker(pytest.mark.skip(reason="bubblewrap is not installed"))
