"""scikit-learn's face of the strategies for tables: regression and classification, simulated."""

from .linear import LdpClassifier, LdpRegressor

__all__ = ["LdpClassifier", "LdpRegressor"]
