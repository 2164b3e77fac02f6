"""What the table and the figure show."""

from dataclasses import dataclass

Scores = dict[str, dict[float, list[float]]]  # R2 of the runs by protocol and epsilon


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    method: str
    guarantee: str
    epsilon: float | None
    r2: float
    bytes_per_user: int | None
    seconds: float
