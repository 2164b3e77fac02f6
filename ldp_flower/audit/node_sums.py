"""Attacks on a client whose noise is at the node: the effect of one user, and the law of the noise.

A reply is the exact sum over a node's users plus noise. With replayed randomness, the noise of two
nodes is the same, so the difference of their replies shows the effect of the data. If nodes share
their noise, the attacks are on the sum under the node's masks (:mod:`.masked_sums`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.special import ndtr
from scipy.stats import kstest

from ..data.users import Users
from ..guarantee.messages import HASH_END, Query, Report
from ..randomizers import NodeSum
from ..randomizers.discrete_gaussian import SIGMA, Integers
from ..randomizers.sums import PARTS
from ..validation import Floats
from .distinguish import bound_from_sums
from .extreme_users import crowd, together, unlike
from .masked_sums import MaskedClient, refusal_checks
from .neighbours import neighbour_checks
from .probe import Client, MakeApp, all_of, derived_seeds
from .settings import settings_checks

_USERS = 7  # number of users of a node whose sum is attacked
_PLACE = 3  # index of the user who changes
_CROWDS = 2  # number of different groups of other users on the node
_COORDINATES = 16  # largest number of coordinates of a sum whose noise is tested


class Attack:
    """Attack on one query for a node's noisy sum."""

    def __init__(self, query: Query, make_app: MakeApp, candidates: Mapping[str, Users]) -> None:
        mechanism = query.randomizer
        assert isinstance(mechanism, NodeSum)
        # At most half of the plan's budget, so that a deployed node can answer twice.
        self.mechanism = replace(mechanism, parts=min(mechanism.parts, PARTS // 2))
        query = replace(query, randomizer=self.mechanism, low=0, high=HASH_END)
        self.client = (MaskedClient if mechanism.shared else Client)(query, make_app)
        self.candidates = candidates
        self._num_features = next(iter(candidates.values())).num_features

    def checks(self, num_reports: int, alpha: float, seed: int) -> dict[str, bool]:
        """Return the results of all checks by name: True if a check has found no fault."""
        found = {
            "user bound": self._within_bound(),
            "noise": self._noise(num_reports, alpha, seed),
            "replay": self._replays(),
        }
        query, make_app = self.client.query, self.client.make_app
        if self.mechanism.shared:
            return found | refusal_checks(query, make_app, self._num_features)
        people = list(self.candidates.values())
        # The nodes of these deployments have the fewest users that the checks need.
        deployment = (query, make_app, 1, people, seed)
        return all_of(found, neighbour_checks(*deployment), settings_checks(*deployment))

    def loss(self, num_reports: int, alpha: float, seed: int) -> tuple[float, tuple[str, str]]:
        """Return a lower bound on the loss, and the two users whose sums differ most."""
        sums = {
            name: self._noisy(self.candidates[name], num_reports, seed, phase).astype(np.float64)
            for phase, name in enumerate(self._farthest())
        }
        scaled = {name: values * self.mechanism.unit for name, values in sums.items()}
        return bound_from_sums(scaled, 2, self.mechanism.delta, alpha)

    def _farthest(self) -> tuple[str, str]:
        """Return the names of the two users whose sums, with the same noise, are farthest apart."""
        sums = {name: self._sums(user)[0] for name, user in self.candidates.items()}
        return max(combinations(sums, 2), key=lambda pair: _distance(sums[pair[0]], sums[pair[1]]))

    def _sums(
        self, users: Users, seeds: Sequence[int | None] = (1,), queries: Sequence[Query] = ()
    ) -> Integers:
        """Return the noisy sums that nodes with these users send, shape (sums, dim).

        There is one node per seed. It sends a sum for each of the queries, by default for one.
        """
        answers = self.client.answers(users, seeds, queries)
        return np.array([_sum_in(each, self.mechanism) for each in answers])

    def _noisy(self, users: Users, number: int, seed: int, phase: int) -> Integers:
        """Return ``number`` sums about the same users, with independent noise."""
        return self._sums(users, derived_seeds(number, seed, phase))

    def _within_bound(self) -> bool:
        """Return True if replacing one user moves a sum by at most the bound.

        The move must also be the same among any other users.
        """
        most = self.mechanism.diameter * self.mechanism.one
        moves = []
        for company in self._companies():
            sums = [self._sums(together(users))[0] for users in self._changed(company)]
            if max(_distance(one, other) for one, other in combinations(sums, 2)) > most:
                return False
            moves.append(np.array(sums) - sums[0])
        return all(np.array_equal(moves[0], other) for other in moves[1:])

    def _companies(self) -> list[list[Users]]:
        everybody = crowd(_CROWDS * _USERS, self._num_features)
        return [everybody[i * _USERS : (i + 1) * _USERS] for i in range(_CROWDS)]

    def _changed(self, company: Sequence[Users]) -> Iterator[list[Users]]:
        """Yield the users of a node, with each candidate in turn in the place of one of them."""
        for other in [*self.candidates.values(), *unlike(self._num_features)]:
            yield [*company[:_PLACE], other, *company[_PLACE + 1 :]]

    def _noise(self, num_reports: int, alpha: float, seed: int) -> bool:
        """Return True if noise is normal with the stated variance, and independent.

        Half of the sums are subtracted from the others about the same data. The checks are of the
        law (Kolmogorov & Smirnov), and of the correlations of neighbouring coordinates and replies.
        """
        users = together(self._companies()[0])
        sums = self._noisy(users, num_reports, seed, len(self.candidates))
        half = num_reports // 2
        some = sums[: 2 * half, :: max(1, sums.shape[1] // _COORDINATES)]
        noise = (some[:half] - some[half:]) / (np.sqrt(2) * SIGMA)
        rows, columns = noise[1:] * noise[:-1], noise[:, 1:] * noise[:, :-1]
        tests = [kstest(noise.ravel(), "norm").pvalue, _of_mean(rows), _of_mean(columns)]
        return bool(min(tests) > alpha / len(tests))

    def _replays(self) -> bool:
        """Return True if a repeated query gets the same sum, and another step another sum."""
        query, users = self.client.query, together(self._companies()[0])
        asked = [query, query, replace(query, step=query.step + 1)]
        one, again, other = self._sums(users, [None], asked)
        return bool((one == again).all() and (one != other).any())


def _sum_in(answer: Report, mechanism: NodeSum) -> Integers:
    """Return the noisy sum in an answer; raise RuntimeError if there is no valid one."""
    found = answer.arrays.get("noisy_sum")
    if found is None or found.dtype != np.int64 or found.shape != (mechanism.dim,):
        raise RuntimeError("The client sends no noisy sum of its node.")
    return np.asarray(found)


def _distance(one: Integers, other: Integers) -> float:
    return float(np.linalg.norm((one - other).astype(np.float64)))


def _of_mean(products: Floats) -> float:
    """Return the p-value for mean 0 of products of independent standard normal numbers."""
    if not products.size:
        return 1.0
    return float(2 * ndtr(-abs(products.mean()) * np.sqrt(products.size)))
