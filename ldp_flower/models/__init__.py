"""Models as data: a network is a text of pure tensor operations that is checked before it runs.

``graph`` defines graphs and their bounds, and ``parsing`` reads the text of a graph. ``operations``
is the closed list (table) of operations, with one row for each. The parts of a row are in
``signatures``, ``arguments``, ``shapes`` and ``layers``. ``checking`` checks a graph against the
table. These modules do not need PyTorch. Only ``interpreter`` and ``export`` do, and they are
imported when they are used. ``personal`` fits a site's own head.
"""

from .graph import Graph, Limits, NetworkError
from .network import Network
from .personal import personal_head

__all__ = ["Graph", "Limits", "Network", "NetworkError", "personal_head"]
