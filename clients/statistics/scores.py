"""Statistics of a classifier's scores, for noise at the node: histogram and ranking."""

import numpy as np

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.validation import Floats

from ..arithmetic import dot, mean_over_rows
from .registry import answers
from .regression import of_class
from .sums import shares_of_rows


@answers(q.ScoreShares)
def score_shares(users: Users, question: q.ScoreShares) -> Floats:
    """Return the share of each user's rows in each bin of the score (:class:`ScoreShares`)."""
    places = np.searchsorted(question.edges, dot(users.features, question.theta), side="left")
    return shares_of_rows(users, places.astype(np.float64), len(question.edges) + 1)


@answers(q.RankingCurve)
def ranking_curve(users: Users, question: q.RankingCurve) -> Floats:
    """Return mean signs of score minus threshold, weighted by class (:class:`RankingCurve`)."""
    share, weight = question.share, question.weight
    above = of_class(users, question.place, 1 - share, -share)
    known = of_class(users, question.place, weight, weight)
    signs = np.sign(dot(users.features, question.theta)[:, None] - question.thresholds)
    rows = np.concatenate([above[:, None] * signs, known[:, None] * signs], axis=1)
    return mean_over_rows(users, rows)
