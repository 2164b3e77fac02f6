"""Series: the same question at every collection, each user in one of them, by rotating panels."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from ldp_flower.guarantee.keys import HASH_END, NodeKeys
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import check_integer, is_integer

from ..runtime.base import LdpStrategy, Protocol, TooFewReports
from ..runtime.facts import Card
from ..runtime.identity import prints_of, recognise
from ..runtime.plain import made, to_plain
from ..runtime.population import Panel, Population, fewest_users
from ..runtime.result import Result
from ..runtime.run_store import RunStore
from ..tables.private_evaluation import PrivateEvaluation
from .collected import Collected, levels_of
from .series_result import SeriesResult

_MAX_COLLECTIONS = 1000  # levels of so many take a second for each estimate
_FEW_GONE = 0.1  # of the users, who may leave without a note: as many reports are lost otherwise
_RARE = 4.0  # standard deviations by which a panel may be smaller than the others


@dataclass(kw_only=True, eq=False, repr=False)
class Series(LdpStrategy[SeriesResult]):
    """The same question at every collection (each week, say), at one epsilon for all of them.

    Every user is in one panel and answers in its collection only, at the whole epsilon. The
    collections' estimates are joined by a local-level model: the level of today, and those of the
    past in hindsight, with 95 % bands.

    Parameters
    ----------
    strategy : LdpStrategy
        What is asked: :class:`Means`, :class:`Counts`, :class:`Quantiles`, :class:`Distribution`,
        :class:`TwoWay`, :class:`PrivateEvaluation`, or another one whose result has ``estimates``.
        Its ``epsilon`` is for the whole series.
    collections : int
        How many there will be, 2 to 1,000: as many panels the users are divided into.
    store : str or Path, optional
        File that keeps the series; without it, it ends with this object.

    Raises
    ------
    ValueError
        If the strategy has no estimates to follow, or an argument is out of range.

    Notes
    -----
    A panel is cut by public hashes, whoever is in the census: so a panel is a random part of the
    users of its week, and estimates are about all of them. Users who join later are in the panels
    of the collections that are left, each with the probability of everybody else; whose panel is
    over, or who is away in its week, is not asked. Weights would let more of them answer, at
    estimates that are about nobody in particular. Users have to keep their places on a node:
    add new ones at the end.

    Smoothing: see :func:`~ldp_flower.strategies.recurring.local_level.local_level`. Smith (1978)
    and Binder & Hidiroglou (1988) are about rotating panels.

    Guarantee
    ---------
    1. Protected: the whole history of a user, everything that it holds at any time, against any
       other history (user-level local differential privacy), at the pure ``epsilon`` of
       ``strategy``.
    2. Every user is asked in one collection at most, which a public hash decides; there the
       guarantee is that of ``strategy``. Nothing else about a user depends on its data, whether
       it answers included.
    3. No matter what the series sends, the clients' randomizers and ledgers enforce ``max-epsilon``
       on their side: a user who is asked outside its panel, twice, or by another series spends
       budget anew, or does not answer.
    """

    card: ClassVar[Card] = Card(
        question="levels over weeks of what another protocol estimates",
        guarantee="that of the protocol, for whole histories",
        rounds="at each collection those of the protocol",
        report="as of the protocol",
        use_when="the same question is asked again and again, at one budget for life",
        fails_when="with panels too small for the protocol: 52 collections of Means at epsilon 1 "
        "take 6,165 users",
        page="recurring",
    )
    no_plan: ClassVar[str] = (
        "A series is planned by its protocol: ldp-flower plan PROTOCOL --collections NUMBER."
    )

    strategy: LdpStrategy[Any] = field(kw_only=False)
    collections: int
    store: str | Path | None = None
    epsilon: float = field(init=False)
    min_reports: int = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, LdpStrategy):
            raise ValueError(f"Expected strategy to be one, got {type(self.strategy).__name__}.")
        if not _has_estimates(type(self.strategy)):
            raise ValueError(
                "Expected a strategy with estimates and standard errors to follow (Means, Counts, "
                "Quantiles, Distribution, TwoWay, PrivateEvaluation), got "
                f"{type(self.strategy).__name__}."
            )
        self.epsilon, self.min_reports = self.strategy.epsilon, self.strategy.min_reports
        super().__post_init__()
        check_integer("collections", self.collections, 2, _MAX_COLLECTIONS)
        if not isinstance(self.store, str | Path | None):
            raise ValueError(f"Expected store to be a path, got {self.store!r}.")
        self.schema = getattr(self.strategy, "schema", None)
        self._memory = RunStore() if self.store is None else None
        self._kept: RunStore  # of the series, while a collection is under way
        self._number: int  # of the collection under way
        self._smallest: int  # users in the smallest panel from now on

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield the first of two evaluations of a model."""
        for strategy, users in PrivateEvaluation.audit_runs(dim, epsilon):
            yield cls(strategy, collections=2), users

    def start(
        self, grid: Grid, *arguments: Any, collection: int | None = None, **named: Any
    ) -> SeriesResult:
        """Collect once, unless this collection is complete, and return the levels so far.

        Other parameters are those of :meth:`LdpStrategy.start`, without ``store``.

        Parameters
        ----------
        grid : Grid
            Flower's grid, or an :class:`~ldp_flower.InProcessGrid`.
        collection : int, optional
            Its number, from 1: the week of the series. One that is complete is not asked again.
            By default the one after the last that is complete. One that is left out is missing,
            and cannot be asked once a later one has begun.

        Raises
        ------
        ValueError
            If the store is another series', or there is no such collection to ask.
        """
        if named.get("store") is not None:
            raise ValueError("Expected the store of a series as an argument of Series.")
        with self._opened_series() as self._kept:
            self._number = self._chosen(collection)
            part = self._kept.part(self._number)
            if part.get("collected") is not None:
                return self.result()
            if (salt := self._kept.get("salt")) is not None:
                seed: Any = named.get("seed")
                if is_integer(seed) and seed % HASH_END != salt:
                    raise ValueError(f"Expected the seed of the first collection, got {seed}.")
                part.put("salt", salt)
            self._kept.put("begun", self._number)
            return super().start(grid, *arguments, **named)

    def result(self) -> SeriesResult:
        """Return the levels so far, without asking anybody.

        Raises
        ------
        ValueError
            If no collection is complete.
        """
        with self._opened_series() as kept:
            found = [
                kept.part(number).get("collected") for number in range(1, 1 + self._begun(kept))
            ]
        collected = [made(Collected, each) for each in found if each is not None]
        if not collected:
            raise ValueError("Expected a complete collection, got none: call start.")
        return self._result(collected)

    def refusal(self, num_users: int) -> str:
        """Return why a series of so many users does not start, and how many would do."""
        if not (why := self.strategy._tried(self._least(num_users))):
            return ""
        refused = fewest_users(lambda users: self.strategy._tried(self._least(users)), num_users)
        enough = "" if refused is None else f"At least {refused:,} users are needed: "
        least = self._least(num_users)
        return f"{enough}the smallest of {self.collections} panels may have only {least}. {why}"

    def check_census(self) -> None:
        """Refuse panels that the strategy would refuse, those to come included at the start."""
        if why := self.strategy._tried(self._smallest):
            self._kept.part(self._number).clear()  # nobody was asked: the next census is another
            raise TooFewReports(f"A panel of {self._smallest} users is too small. {why}")

    def protocol(self) -> Protocol:
        """Ask this collection's panel what the strategy asks."""
        asked = copy.copy(self.strategy)
        asked._population = self._population
        return (yield from asked.protocol())

    @property
    def _num_features(self) -> int | None:
        return self.strategy._num_features

    @contextmanager
    def _opened_series(self) -> Iterator[RunStore]:
        """Open what keeps the series; refuse the store of another one."""
        if self._memory is not None:
            yield self._memory
            return
        with RunStore(self.store).open() as kept:
            of_strategy = {
                f"strategy.{name}": own for name, own in prints_of(self.strategy).items()
            }
            own = {"collections": prints_of(self)["collections"]}
            recognise(kept, type(self.strategy), {**of_strategy, **own})
            yield kept

    @contextmanager
    def _opened(self, store: str | Path | None) -> Iterator[RunStore]:
        self._kept_in = self.store
        yield self._kept.part(self._number)

    @staticmethod
    def _begun(kept: RunStore) -> int:
        """Return the number of the last collection that has begun; 0 before the first."""
        return int(kept.get("begun") or 0)

    def _chosen(self, collection: int | None) -> int:
        """Return the number of the collection to ask, or that is complete."""
        last = self._begun(self._kept)
        complete = last and self._kept.part(last).get("collected") is not None
        if collection is None:
            collection = last + 1 if complete or not last else last
            if collection > self.collections:
                raise ValueError(
                    f"Expected at most {self.collections} collections: all are over. "
                    "result() returns the levels."
                )
            return collection
        check_integer("collection", collection, 1, self.collections)
        if collection < last and self._kept.part(collection).get("collected") is None:
            raise ValueError(
                f"Expected a collection from {last} on, got {collection}: a later one has begun."
            )
        return collection

    def _of_census(self, nodes: Mapping[int, NodeKeys], salt: int) -> Population:
        """Return this collection's panel."""
        if self._kept.get("salt") is None:
            self._kept.put("salt", salt)
        cuts = [HASH_END * each // self.collections for each in range(self.collections + 1)]
        panel = Panel(nodes, salt, cuts[self._number - 1], cuts[self._number])
        self._smallest = len(panel)
        if self._number == 1:
            hashes = np.concatenate([keys.hashes(salt) for keys in nodes.values()])
            places = np.searchsorted(np.array(cuts[1:-1], np.uint64), hashes, side="right")
            self._smallest = int(np.bincount(places, minlength=self.collections).min())
        return panel

    def _least(self, num_users: int) -> int:
        """Return how many users the smallest panel has, at least, as good as surely."""
        usual = num_users / self.collections
        return max(0, int(usual - _RARE * usual**0.5))

    def _finished(self, result: Result, seeded: bool) -> SeriesResult:
        """Keep the estimates of this collection; return the levels so far."""
        found = self._with_facts(result, seeded)
        names, values, errors = found.estimates()
        assert found.privacy is not None
        own = Collected(
            number=self._number,
            names=names,
            values=values,
            std_errors=errors,
            num_users=found.num_users,
            asked=len(self._population),
            reports=self._users("reports"),
            no_budget=found.no_budget,
            steps=found.steps,
            notes=found.notes,
            privacy=found.privacy,
        )
        self._kept.part(self._number).put("collected", to_plain(own))
        return self.result()

    def _result(self, collected: list[Collected]) -> SeriesResult:
        """Return the levels of some collections."""
        last, levels = collected[-1], levels_of(collected)
        counts = np.zeros((3, last.number), np.int64)
        for each in collected:
            counts[:, each.number - 1] = each.num_users, each.asked, each.reports
        users, asked, reports = counts
        return SeriesResult(
            strategy=f"{type(self).__name__} of {type(self.strategy).__name__}",
            question=self.strategy.card.question,
            schema=self.schema,
            privacy=last.privacy,
            num_users=last.num_users,
            num_reports=int(reports.sum()),
            no_budget=sum(each.no_budget for each in collected),
            steps=last.steps,
            notes=[*last.notes, *_gone(users)],
            collections=self.collections,
            names=last.names,
            **vars(levels),
            users=users,
            asked=asked,
            reports=reports,
        )


def _gone(users: NDArray[np.int64]) -> list[str]:
    """Return a note where many of the users of some collection are in the last census no more."""
    most = int(np.argmax(users))
    lost = 1 - users[-1] / users[most]
    if lost < _FEW_GONE:
        return []
    return [
        f"The census fell by {lost:.0%} since collection {most + 1}. Levels are about the users "
        f"who are there: those of all would be off by {lost:.0%} of the difference between those "
        "who left and those who stayed."
    ]


def _has_estimates(kind: type[LdpStrategy[Any]]) -> bool:
    """Whether the result of a strategy says what a series follows."""
    bases = [base for each in kind.__mro__ for base in getattr(each, "__orig_bases__", ())]
    results = [argument for base in bases for argument in getattr(base, "__args__", ())]
    return any(
        isinstance(each, type)
        and issubclass(each, Result)
        and each.estimates is not Result.estimates
        for each in results
    )
