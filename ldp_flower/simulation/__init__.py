"""Strategy and client in one process: the grid, generated users, and ``simulate``."""

from .generated import GeneratedUsers
from .grid import InProcessGrid
from .simulate import simulate

__all__ = ["GeneratedUsers", "InProcessGrid", "simulate"]
