"""What is asked, apart from whom and how it is randomised."""

from dataclasses import dataclass, field

from ldp_flower.messages import Arrays


@dataclass(frozen=True)
class Question:
    """A statistic with its public arguments.

    Attributes
    ----------
    statistic : str
        Its name in the clients' registry.
    arrays : mapping of str to ndarray
        Its public arrays.
    params : mapping of str to float
        Its public numbers.
    """

    statistic: str
    arrays: Arrays = field(default_factory=dict)
    params: dict[str, float] = field(default_factory=dict)
