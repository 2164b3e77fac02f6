"""Runtime of all protocols: the strategy, its messages to clients, its store and its result."""

from .ask import Answers as Answers
from .ask import Ask as Ask
from .asked import Asked as Asked
from .base import LdpStrategy as LdpStrategy
from .card import Card as Card
from .coefficients import FeatureStrategy as FeatureStrategy
from .coefficients import LinearResult as LinearResult
from .coefficients import SparseStrategy as SparseStrategy
from .population import Cohort as Cohort
from .result import Estimates as Estimates
from .result import Result as Result
from .run import ContradictedValue as ContradictedValue
from .run import Protocol as Protocol
from .run import Run as Run
from .run import TooFewReports as TooFewReports
from .run import ask_on as ask_on
