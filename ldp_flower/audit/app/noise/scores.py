"""Numbers that replies are reduced to, before anything is decided by them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....validation import Floats
from ..replies import Seen
from .moments import Moments, vector
from .steady import Effect

WHOLE_RUN = -1
DENSE = 300  # numbers of a whole run up to which their covariance is estimated
_SCALARS = 20  # numbers of a reply that are also looked at one by one
_KEPT = 240  # noisy numbers of a run that tell the noise's shape
#: What the scores are that all messages have, and the run.
BY = (
    "the direction between the means",
    "the direction between the means",
    "how far the noise goes",
    "the direction in which data move it",
    "values that the other data set never sends",
    "values that the other data set never sends",
)
LINEAR = (0, 1, 3)  # which of them are linear ones


@dataclass(frozen=True)
class Look:
    """What is known of one data set before anything is scored: moments, and rows if few."""

    moments: Moments
    rows: Floats


@dataclass(frozen=True)
class Score:
    """What is left of a reply, or of a run.

    Attributes
    ----------
    code, form : int
        Of all of it, and of what is there beside numbers.
    scores : list of float
        As ``BY`` says, then others.
    kept : ndarray
        Noisy numbers, those first that data move most.
    """

    code: int
    form: int
    scores: list[float]
    kept: Floats


class Scorer:
    """Directions in which two data sets are told apart, chosen by other runs.

    Parameters
    ----------
    one, two : Look
        At the two data sets.
    effect : dict of int to ndarray
        How data move each message's numbers, if that is known.
    """

    def __init__(self, one: Look, two: Look, effect: Effect) -> None:
        first, second = one.moments, two.moments
        self.numbers = sorted(first.means.keys() & second.means.keys())
        self._directions: dict[int, list[Floats]] = {}
        self._centres: dict[int, Floats] = {}
        self._kept: dict[int, NDArray[np.intp]] = {}
        self._ranges: dict[int, list[tuple[Floats, Floats, Floats]]] = {}
        self.signs: dict[int, Floats] = {}
        each = max(_KEPT // max(len(self.numbers), 1), 8)
        for number in self.numbers:
            if first.means[number].shape != second.means[number].shape:
                self._directions[number], self.signs[number] = [], np.zeros(0)
                continue
            apart = first.means[number] - second.means[number]
            spread = (first.variance(number) + second.variance(number)) / 2
            floor = max(float(spread.max(initial=0.0)) * 1e-12, 1e-300)
            moved = effect.get(number, np.zeros_like(apart))
            if moved.shape != apart.shape:
                moved = np.zeros_like(apart)
            self._directions[number] = [
                apart / np.maximum(spread, floor),
                apart / max(float(np.abs(apart).max(initial=0.0)), 1e-300),
                moved / np.maximum(spread.mean() if spread.size else 0.0, floor),
            ]
            self._centres[number] = (first.means[number] + second.means[number]) / 2
            scale = np.sqrt(np.maximum(spread, floor))
            self._ranges[number] = [(m.low[number], m.high[number], scale) for m in (first, second)]
            known = moved if moved.any() else apart
            noisy = np.flatnonzero((first.variance(number) > 0) & (second.variance(number) > 0))
            order = np.argsort(-np.abs(known[noisy]) / np.sqrt(spread[noisy]), kind="stable")
            self._kept[number] = noisy[order[:each]]
            self.signs[number] = np.sign(known[self._kept[number]])
        self.signs[WHOLE_RUN] = np.concatenate([*self.signs.values(), np.zeros(0)])
        self._whole = _whitened(one.rows, two.rows)

    def scores(self, run: Sequence[Seen]) -> dict[int, Score]:
        """Return what is left of each message's reply, and of the whole run."""
        found: dict[int, Score] = {}
        for number in self.numbers:
            reply, values = run[number], vector(run[number])
            directions = self._directions[number]
            if directions and len(values) == len(directions[0]):
                around = values - self._centres[number]
                one, other, moved = (float(around @ direction) for direction in directions)
                outside = [
                    float(
                        np.maximum((low - values) / scale, (values - high) / scale).max(initial=0.0)
                    )
                    for low, high, scale in self._ranges[number]
                ]
                scores = [one, other, float(around @ around), moved, *outside]
                scores += values[:_SCALARS].tolist()
                kept = values[self._kept[number]]
            else:
                scores, kept = [np.nan] * len(BY), np.zeros(0)
            code, form = (int.from_bytes(d, "big") for d in (reply.digest, reply.form_digest))
            found[number] = Score(code, form, scores, kept)
        sums = [sum(found[n].scores[k] for n in self.numbers) for k in range(len(BY) - 2)]
        sums += [max((found[n].scores[k] for n in self.numbers), default=0.0)
                 for k in range(len(BY) - 2, len(BY))]  # fmt: skip
        if self._whole is not None:
            whole = np.concatenate([vector(reply) for reply in run])
            fits = len(whole) == len(self._whole)
            sums.append(float(whole @ self._whole) if fits else np.nan)
        kept = np.concatenate([*(score.kept for score in found.values()), np.zeros(0)])
        code, form = (
            hash(tuple(codes)) & (1 << 63) - 1
            for codes in zip(*((each.code, each.form) for each in found.values()), strict=True)
        )
        found[WHOLE_RUN] = Score(code, form, sums, kept)
        return found


def _whitened(one: Floats, two: Floats) -> Floats | None:
    """Return the direction that tells two samples apart best, by their common covariance.

    It finds what noise has in common: between entries, between rounds.
    """
    if not one.size or one.shape[1:] != two.shape[1:]:
        return None
    within = np.concatenate([one - one.mean(axis=0), two - two.mean(axis=0)])
    covariance = within.T @ within / max(len(within) - 2, 1)
    moving = np.ptp(one, axis=0) + np.ptp(two, axis=0) > 0  # others are no noise's doing
    scale = np.where(moving, np.sqrt(np.maximum(np.diag(covariance), 1e-300)), np.inf)
    correlation = covariance / np.outer(scale, scale)
    correlation[np.diag_indices_from(correlation)] = 1 + 1e-9
    apart = (one.mean(axis=0) - two.mean(axis=0)) / scale
    found, *_ = np.linalg.lstsq(correlation, apart, rcond=1e-10)
    return np.asarray(found / scale)
