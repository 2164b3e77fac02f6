"""What runs every protocol: the strategy, its exchange with clients, its store, its result."""

from .base import LdpStrategy as LdpStrategy
from .card import ASKED_ONCE as ASKED_ONCE
from .card import ENFORCED as ENFORCED
from .card import NON_INTERACTIVE as NON_INTERACTIVE
from .card import PER_USER as PER_USER
from .card import USER as USER
from .card import USER_BY_METHOD as USER_BY_METHOD
from .card import Card as Card
from .coefficients import FeatureStrategy as FeatureStrategy
from .coefficients import LinearResult as LinearResult
from .coefficients import SparseStrategy as SparseStrategy
from .exchange import Answers as Answers
from .exchange import Ask as Ask
from .population import Cohort as Cohort
from .result import Estimates as Estimates
from .result import Result as Result
from .run import Protocol as Protocol
from .run import Run as Run
from .run import TooFewReports as TooFewReports
