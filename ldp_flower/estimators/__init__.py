"""scikit-learn estimators that simulate the strategies for tables: regression, classification."""

from .linear import LdpClassifier, LdpRegressor

__all__ = ["LdpClassifier", "LdpRegressor"]
