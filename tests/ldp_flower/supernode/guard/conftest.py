import sys
from pathlib import Path

import pytest

from ldp_flower.clients import LdpUpdateMod

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `guarded_node`


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.sandbox)


@pytest.fixture
def updates(monkeypatch):
    """Let the mod tell which updates it randomises."""
    seen, plain = [], LdpUpdateMod._updates

    def told(self, *arguments):
        seen.append(plain(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(LdpUpdateMod, "_updates", told)
    return seen
