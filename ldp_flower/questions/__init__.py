"""Questions to users: typed objects, each with one encoding on the wire.

Strategies send these objects. Clients choose the statistic by the object's class. Only this package
gives statistics names. A message can ask one of these questions, a public transformation of one,
and a question for which the node's app supplies a statistic (:func:`wire_types_with`).
"""

from .base import *
from .classes import *
from .columns import *
from .features import *
from .fields import *
from .model_sums import *
from .networks import *
from .registry import *
from .regression import *
from .scores import *
from .selection import *
from .sizes import *
from .sums import *
from .transformed import *
from .updates import *
