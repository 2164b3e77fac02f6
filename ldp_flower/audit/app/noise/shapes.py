"""Noise of a known shape, normal or Laplace's, and the loss of privacy that its size means.

Events that are seen often enough to be counted tell less than the shape does: of n runs no more
than log n. A shape is believed where the app was seen to draw it, and numbers pass for it.
"""

import math
import re
import sys
from types import FrameType
from typing import Any

import numpy as np
from scipy import stats

from ....accounting import gaussian_epsilon
from ....validation import Floats
from ..data.variants import BASE
from ..node import Node

_NORMAL = re.compile(r"^(standard_|multivariate_)?normal(variate|_)?$|^gauss$|^randn(_like)?$")
_LAPLACE = re.compile(r"^laplace$")
_OTHERS = re.compile(
    r"^(standard_|negative_)?(exponential|expo|gamma|geometric|poisson|binomial|cauchy|gumbel|"
    r"dirichlet)(variate|_)?$"
)
_MISTAKEN = 1e-3  # probability with which noise of a shape is taken for another
_FEWEST = 300  # numbers that tell a shape
_STANDS_OUT = 4.5  # standard errors
_LENGTHS = (0.4, 1.7)  # variance of squared lengths, over what independent numbers have
_LARGEST_MU = 100.0


def drawn(node: Node) -> set[str]:
    """Return whether the app draws ``normal`` or ``laplace`` numbers; nothing if others, too.

    Names in the code that runs tell it, since NumPy's own functions are not seen at work.
    """
    names: set[str] = set()
    own: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            names.add(str(getattr(argument, "__name__", "")))
        elif event == "call":
            found = {frame.f_code.co_name, *frame.f_code.co_names}
            names.update(found)
            if node.owns(frame.f_code.co_filename):
                own.update(found)

    def watched(answers: Any) -> None:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            answers()
        finally:
            sys.setprofile(before)

    node.run(BASE, watched)
    if any(_OTHERS.match(name) for name in own):
        return set()
    return {
        shape
        for shape, pattern in (("normal", _NORMAL), ("laplace", _LAPLACE))
        if any(pattern.search(name) for name in names)
    }


def passes(shape: str, numbers: Floats) -> bool:
    """Whether numbers, a row for each run, may be something fixed and noise of a shape."""
    apart = numbers - (np.mean if shape == "normal" else np.median)(numbers, axis=0)
    spread = apart.std(axis=0, ddof=1)
    if not spread.size or not (spread > 0).all():
        return False
    apart = apart / spread
    if apart.size < _FEWEST:
        return False
    law = stats.norm() if shape == "normal" else stats.laplace(scale=math.sqrt(0.5))
    if stats.kstest(apart.ravel(), law.cdf).pvalue < _MISTAKEN:
        return False
    expected = 3.0 - 6 / (len(apart) + 1) if shape == "normal" else 6.0
    fourth = float(np.mean(apart**4))
    if abs(fourth - expected) > _STANDS_OUT * float(np.std(apart**4)) / math.sqrt(apart.size):
        return False
    # Of vectors whose length is fixed, or one number times a direction, single numbers pass, too.
    squared = (apart**2).sum(axis=1)
    ratio = float(squared.var(ddof=1)) / (apart.shape[1] * (expected - 1))
    return bool(_LENGTHS[0] < ratio < _LENGTHS[1])


def normal_epsilon(one: Floats, two: Floats, delta: float, alpha: float) -> tuple[float, float]:
    """Return a lower bound of epsilon, and of how many standard deviations means are apart.

    Parameters
    ----------
    one, two : ndarray, shape (runs,)
        Scores on two data sets.
    delta : float
        Above 0.
    alpha : float
        Probability with which the bound may fail.
    """
    n, m = len(one), len(two)
    spread = math.sqrt(max(float(one.var(ddof=1)), float(two.var(ddof=1))))
    if not min(one.std(), two.std()):
        return 0.0, 0.0
    if stats.kstest(_standard(one, two), "norm").pvalue < _MISTAKEN:
        return 0.0, 0.0
    apart = abs(float(one.mean() - two.mean())) / spread
    error = math.sqrt(1 / n + 1 / m + apart**2 / (2 * (min(n, m) - 1)))
    # Student's quantile, since the spread is estimated.
    mu = apart - float(stats.t.isf(alpha / 2, min(n, m) - 1)) * error
    if mu <= 0:
        return 0.0, 0.0
    return gaussian_epsilon(min(mu, _LARGEST_MU), delta), mu


def _standard(one: Floats, two: Floats) -> Floats:
    return np.concatenate([(s - s.mean()) / s.std(ddof=1) for s in (one, two)])


def laplace_epsilon(one: Floats, two: Floats, signs: Floats, delta: float, alpha: float) -> float:
    """Return a lower bound of epsilon where every number has Laplace noise of its own.

    If k numbers all lie beyond both means, which has probability ``2 ** -k``, the loss is the
    sum of their distances, each over its scale.

    Parameters
    ----------
    one, two : ndarray, shape (runs, numbers)
        On two data sets; the likeliest to differ come first.
    signs : ndarray, shape (numbers,)
        Which data set has the larger numbers, as other runs suggest.
    delta : float
        Of the claim.
    alpha : float
        Probability with which the bound may fail.
    """
    n = min(len(one), len(two))
    # Scales of all numbers are nearly as well known as one; a number's own is taken.
    scales = (np.abs(one - np.median(one, axis=0)).mean(axis=0)
              + np.abs(two - np.median(two, axis=0)).mean(axis=0)) / 2  # fmt: skip
    first, second = (np.cumsum(rows / scales * signs, axis=1) for rows in (one, two))
    sums = first.mean(axis=0) - second.mean(axis=0)
    error = np.sqrt(
        first.var(axis=0, ddof=1) / len(one) + second.var(axis=0, ddof=1) / len(two)
        + sums**2 / (2 * n)
    )  # fmt: skip
    least = sums - float(stats.t.isf(alpha / (2 * len(sums)), n - 1)) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        found = least + np.log(np.maximum(1 - delta * 2.0 ** np.arange(1, len(sums) + 1), 0.0))
    return max(float(np.nan_to_num(found, neginf=0.0).max(initial=0.0)), 0.0)
