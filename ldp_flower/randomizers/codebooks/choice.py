"""Which codebook to take for a vector in a ball."""

from .codebook import Codebook
from .hadamard import HadamardCodebook

_MANY = 4096  # coordinates, from which generating words costs more than turning axes


def ball_codebook(
    epsilon: float, dim: int, radius: float = 1.0, num_codewords: int | None = None
) -> Codebook | HadamardCodebook:
    """Return the codebook for so many coordinates: :class:`HadamardCodebook` from 4,096 on.

    Parameters are those of both. By default there are as many words as epsilon can make use of:
    256, and so one byte a report, up to 4, then 1,024 up to 8 and 4,096 beyond, two bytes.
    """
    words = num_codewords or (256 if epsilon <= 4 else 1024 if epsilon <= 8 else 4096)
    if dim < _MANY:
        return Codebook(epsilon, dim, radius, words)
    return HadamardCodebook(epsilon, dim, radius, words)
