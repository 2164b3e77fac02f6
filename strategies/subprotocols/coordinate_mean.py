"""Mean of users' vectors from one rotated coordinate per user: first its range, then its value."""

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ldp_flower.questions import Question, Rotated, RotatedBins
from ldp_flower.questions.public_maps import rotate_back
from ldp_flower.randomizers import Estimate, HadamardResponse, SampledCoordinate
from ldp_flower.randomizers.elementwise import padded_size
from ldp_flower.randomness import KeyedRandom, derive

from ..runtime import Ask, Run
from .scales import number_randomizer

_WIDTH = 4.0  # smallest width of a bin, in standard deviations of the users
# With fewer bins, a bin widened by half its width on each side does not narrow the range.
_FEWEST_BINS = 4
_MOST_BINS = 1024
_EDGE_SHARE = 0.5  # share of the users in a bin if their mean is at an edge of the bin
_EXCEEDED = 0.05  # probability, over the random signs, that a rotated coordinate leaves its range


@dataclass(frozen=True)
class CoordinateMean:
    """Estimator of the mean of vectors, from one coordinate of each user.

    Source: Ma, Jia & Yang (ICML 2024), ULDPMean, made private: separate users report the range, one
    coordinate each, and the other users' numbers are clipped to it, so that each user sends one
    report of ``epsilon``. Vectors are padded to K coordinates and rotated by random signs and
    Hadamard's matrix. The mean's coordinates then lie within ``length sqrt(2 log(2 K / 0.05) / K)``
    with probability 95 % (Hoeffding). This range is cut into bins whose number is a power of two.
    Each bin is at least ``4 spread / sqrt(K)`` wide.
    """

    epsilon: float  # privacy parameter of each user's one report
    dim: int  # number of coordinates of the vectors
    length: float  # upper bound on the length of the mean
    spread: float  # upper bound on the root mean square distance of users' vectors from the mean

    @property
    def order(self) -> int:
        """Number of coordinates of a rotated vector: ``dim``, padded for the rotation."""
        return padded_size(self.dim)

    @property
    def reach(self) -> float:
        """Bound on a coordinate of the rotated mean, with high probability."""
        order = self.order
        return self.length * math.sqrt(min(1.0, 2 * math.log(2 * order / _EXCEEDED) / order))

    @property
    def num_bins(self) -> int:
        """Number of bins in which users report a coordinate's range; 1 if it is not asked for."""
        widest = 2 * self.reach / (_WIDTH * self.spread / math.sqrt(self.order))
        bins = 1 << min(int(widest), _MOST_BINS).bit_length() - 1 if widest >= 1 else 1
        return bins if bins >= _FEWEST_BINS else 1

    def sizes(self, num_users: int) -> list[int]:
        """Return the numbers of users who report ranges (if they are needed), and means."""
        half = num_users // 2
        return [num_users] if self.num_bins == 1 else [half, num_users - half]

    def notes(self, num_users: int) -> list[str]:
        """Return a note, in a list, if ``num_users`` users are too few to estimate the ranges."""
        if self.num_bins == 1:
            return []
        # If the mean is between two bins, each has half of the users. A range is likely wrong if
        # the noise of another bin exceeds this share.
        users = self.sizes(num_users)[0] / self.order
        noise = math.sqrt(HadamardResponse(self.epsilon, self.num_bins).variance / users)
        if noise * math.sqrt(2 * math.log(self.order * self.num_bins)) < _EDGE_SHARE:
            return []
        return [
            f"The ranges of {self.order} coordinates were asked of {users:.0f} users each, which "
            "are too few: some are likely wrong, by more than the standard errors say."
        ]

    def estimate(
        self, run: Run, num_users: int, question: Question
    ) -> Generator[Ask, Estimate, Estimate]:
        """Ask ``num_users`` users of a run, some for the range and others for numbers within it.

        Return the mean. The two cohorts have the sizes that :meth:`sizes` returns.
        """
        cohorts = run.cohorts(self.sizes(num_users))
        words = KeyedRandom(derive(run.salt, cohorts[0].low)).words((1, self.dim))[0]
        signs = np.where(words >> np.uint64(63), 1.0, -1.0)
        *ranging, answering = cohorts
        midpoints, half = np.zeros(self.order), self.reach
        # The cohort reports a histogram of each coordinate; the fullest bin is taken as the range.
        for cohort in ranging:
            bins = RotatedBins(question, signs, self.reach, self.num_bins)
            histogram = HadamardResponse(self.epsilon, self.num_bins)
            answer = yield Ask(cohort, bins, SampledCoordinate(histogram, self.order))
            fullest = np.argmax(answer.mean.reshape(self.order, -1), axis=1)
            midpoints = ((fullest + 0.5) * 2 / self.num_bins - 1) * self.reach
            half = 2 * self.reach / self.num_bins  # half a bin, and half a bin beyond it
        number = number_randomizer(self.epsilon, half)
        answer = yield Ask(
            answering, Rotated(question, signs, midpoints), SampledCoordinate(number, self.order)
        )
        # A coordinate without reports is estimated by its midpoint; its error is half the range.
        errors = np.where(np.isfinite(answer.std_error), answer.std_error, half)
        mean = rotate_back((midpoints + answer.mean)[None], signs)[0]
        return Estimate(mean, np.full(self.dim, math.sqrt(np.mean(errors**2))), answer.count)
