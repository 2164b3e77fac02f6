"""Strategy and client in one process: the grid, generated users, and ``simulate``."""

from .grid import InProcessGrid
from .simulate import GeneratedUsers, simulate

__all__ = ["GeneratedUsers", "InProcessGrid", "simulate"]
