"""Which codebook to take for a vector in a ball."""

from .codebook import Codebook
from .hadamard import HadamardCodebook

_MANY = 4096  # coordinates, from which generating words costs more than turning axes


def ball_codebook(
    epsilon: float, dim: int, radius: float = 1.0, num_codewords: int = 256
) -> Codebook | HadamardCodebook:
    """Return the codebook for so many coordinates: :class:`HadamardCodebook` from 4,096 on.

    Parameters are those of both.
    """
    if dim < _MANY:
        return Codebook(epsilon, dim, radius, num_codewords)
    return HadamardCodebook(epsilon, dim, radius, num_codewords)
