"""Models as data: a network as a text of pure tensor operations, checked before it runs.

``parsing`` reads the text, ``operations`` is the closed list with a row for each operation, whose
parts are in ``signatures``, ``arguments``, ``shapes`` and ``layers``; ``checking`` compares a graph
with it, ``graph`` holds bounds. They need no PyTorch; ``interpreter`` and ``export`` do, and are
imported when they are needed.
"""

from .graph import Graph, Limits, NetworkError
from .network import Network

__all__ = ["Graph", "Limits", "Network", "NetworkError"]
