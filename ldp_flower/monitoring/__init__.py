"""Exports of runs and of nodes to monitoring systems and experiment trackers.

An export is a callback of a run, ``strategy.start(grid, callbacks=[export])``. It gets released
facts only.
"""

from .opentelemetry import OpenTelemetryExport
from .prometheus import PrometheusExport
from .trackers import MlflowExport, TensorBoardExport, WandbExport

__all__ = [
    "MlflowExport",
    "OpenTelemetryExport",
    "PrometheusExport",
    "TensorBoardExport",
    "WandbExport",
]
