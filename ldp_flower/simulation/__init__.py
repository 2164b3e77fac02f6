"""Simulation in one process: the grid, generated users, and ``simulate``."""

from .generated import GeneratedUsers
from .grid import InProcessGrid
from .run import simulate

__all__ = ["GeneratedUsers", "InProcessGrid", "simulate"]
