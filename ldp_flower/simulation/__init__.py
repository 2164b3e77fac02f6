"""Simulation in one process: the grid, generated users, and ``simulate``."""

from .grid import GeneratedUsers, InProcessGrid, simulate

__all__ = ["GeneratedUsers", "InProcessGrid", "simulate"]
