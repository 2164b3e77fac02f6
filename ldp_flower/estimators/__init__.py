"""scikit-learn's face of the strategies for tables: regression and classification, simulated."""

from .classifier import LdpClassifier
from .regressor import LdpRegressor

__all__ = ["LdpClassifier", "LdpRegressor"]
