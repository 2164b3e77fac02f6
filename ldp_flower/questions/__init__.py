"""Questions: what users can be asked, each a typed object with one form on the wire.

Strategies ask with these objects and clients compute by their classes; only here do statistics
have names. A message can ask for these, for public transformations around them, and for questions
that the node's own app brings a statistic for (:func:`wire_types_with`).
"""

from .base import *
from .columns import *
from .features import *
from .registry import *
from .regression import *
from .sizes import *
from .transformed import *
from .updates import *
