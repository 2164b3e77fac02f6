"""Strategy for repeated collections of the same estimates, with one privacy budget for all."""
