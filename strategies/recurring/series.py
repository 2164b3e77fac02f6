"""Series: a strategy for repeated collections, by panels, permanent answers or sums of nodes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.data.users import Users
from ldp_flower.guarantee.messages import HASH_END, NUMBERS, NodeKeys
from ldp_flower.refusals import TooFew
from ldp_flower.validation import (
    check_integer,
    check_truth,
    check_unused,
    is_integer,
    plain_arguments,
)

from ..runtime import Card, LdpStrategy, Run, TooFewReports
from ..runtime.at_node import AtNode
from ..runtime.plain import to_plain
from ..runtime.population import MAX_USERS, Panel, Population, SizeOnlyPopulation, fewest_users
from ..runtime.prints import LATER, Print, prints_of, recognise
from ..runtime.run import AnyProtocol, Arguments
from ..runtime.run_store import RunStore
from ..runtime.start import simulated_salt
from ..subprotocols.permanent import (
    AsksPermanently,
    PermanentForm,
    ask_for_bits,
    change_of,
    level_of,
)
from ..table_models.private_evaluation import PrivateEvaluation
from .collected import (
    BitsResult,
    Collected,
    all_complete,
    collection_to_run,
    complete,
    has_estimates,
    keep_bits,
    kept_bits,
)
from .season import PERIODS
from .series_result import SeriesResult

_MAX_COLLECTIONS = 1000  # the levels of 1,000 collections of one estimate take a second to compute


@dataclass(kw_only=True, eq=False, repr=False)
class Series(AtNode, LdpStrategy[SeriesResult]):
    """Strategy that repeats a question at every collection (for example weekly), at one epsilon.

    The users are divided into panels, one for each collection. A user answers in the collection of
    its panel only, at the whole epsilon. A local-level model combines the estimates of all
    collections. It estimates the present level and the past levels, with 95 % bands. With
    ``memoised`` all users answer at every collection instead, and each keeps the same noise. With
    noise at the node all users answer at every collection, too, by an equal share of the budget.

    Parameters
    ----------
    strategy : LdpStrategy
        The strategy that runs at each collection: :class:`Means`, :class:`Counts`,
        :class:`Quantiles`, :class:`TwoWay` (of numbers: with ``cells``),
        :class:`PrivateEvaluation`, or another one whose result has ``estimates``.
        :class:`Distribution` has none: its smoothing has the same bias every week, and 13 to 20 %
        of the levels' 95 % bands missed the truth. The strategy's ``epsilon`` is for the whole
        series, as are its ``noise``, ``delta`` and ``honest`` (:class:`~..runtime.at_node.AtNode`),
        and its ``study``.
    collections : int
        Number of collections, 2 to 1,000. It is also the number of panels. With noise at the node
        each collection has an equal share of the budget.
    memoised : bool (default: False)
        If True, users give permanent answers. This is possible for :class:`Counts`, and for
        :class:`Means` without groups. A node refuses unless its operator has set
        ``allow-public-changes=true``.
    season : int, optional
        Number of collections after which a seasonal pattern repeats, such as 7 for days. It is
        estimated after three such periods. By default there is no season. It affects levels but no
        query, so it may be set during a series.
    store : str or Path, optional
        File that stores the series. Without it, the series ends with this object.

    Raises
    ------
    ValueError
        If the result of the strategy has no estimates, or an argument is out of range.

    Notes
    -----
    Public hashes assign users to panels, independently of the census. So a panel is a random part
    of its week's users, and the estimates are about all of them. A user who joins later is in each
    of the remaining panels with the same probability as all other users. In a deployment, a number
    that the ledger assigns to the user is hashed, so a node may reorder its users.

    Smoothing: see :func:`~ldp_flower.strategies.recurring.local_level.local_level`. Smith (1978)
    and Binder & Hidiroglou (1988) treat rotating panels.

    With ``memoised`` a user sends one bit of its value. One secret coin of the user flips all of
    its bits or none. If users drew a separate answer for each value, as in RAPPOR (Erlingsson,
    Pihur & Korolova 2014), a user with k different values would spend k epsilon. Public coins
    select the bit. A number is rounded by a threshold that the user keeps. All levels have the same
    noise, and changes have little noise.

    With noise at the node, panels of users on the same nodes would have the square root of
    ``collections`` times as much noise as all users by a share of the budget. The users are the
    same in all collections, so only the noise is smoothed: a level keeps the error by the choice of
    users. A user who joins later pays for the whole series, too.

    Guarantee
    ---------
    1. Protected without ``memoised``: the whole history of a user, everything that it holds at any
       time, against any other history (user-level local differential privacy), at the pure
       ``epsilon`` of ``strategy``. Every user is asked in one collection at most, which a public
       hash decides; there the guarantee is that of ``strategy``.
    2. Protected with ``memoised``: the same, given the collections C in which the user's answer
       differs from the one before. For any two histories under which C is possible, the
       probabilities of all that the user sends, given C, differ by a factor of exp(``epsilon``) at
       most. C depends on the user's data, and nothing is promised about it: the times at which a
       user's answer changes are public.
    3. Nothing else about a user depends on its data, including whether it answers.
    4. No matter what the series sends, the clients' randomizers and ledgers enforce ``max-epsilon``
       on their side: a user who is asked outside its panel, twice, or by another series spends
       budget anew, or does not answer. A memoised series is paid once, when it begins.
    5. With noise at the node, 1 and 2 are instead: protected is the whole history of a user, at
       (``epsilon``, ``delta``), and users trust the node that holds their rows. All collections are
       one plan of the ledger, which a user pays with its first report. A sum beyond the plan is
       refused, whatever the server asks.
    """

    card: ClassVar[Card] = Card(
        question="levels over weeks of what another protocol estimates",
        guarantee="that of the protocol, for whole histories",
        rounds="those of the protocol",
        report="as of the protocol",
        use_when="the same question is asked again and again",
        fails_when="with panels too small for the protocol: 52 collections of Means at epsilon 1 "
        "take 6,165 users",
        page="recurring",
    )
    no_plan: ClassVar[str] = (
        "A series is planned by its protocol: ldp-flower plan PROTOCOL --collections NUMBER."
    )

    strategy: LdpStrategy[Any] = field(kw_only=False)
    collections: int
    memoised: bool = False
    season: int | None = None
    store: str | Path | None = None
    epsilon: float = field(init=False)
    min_reports: int = field(init=False)
    noise: str = field(init=False, default="user", metadata={LATER: True})
    delta: float = field(init=False, default=1e-6, metadata={LATER: True})
    honest: int | None = field(init=False, default=None, metadata={LATER: True})
    study: str | None = field(init=False, default=None, metadata={LATER: True})
    study_key: str | None = field(init=False, default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, LdpStrategy):
            raise ValueError(
                f"Expected strategy to be an LdpStrategy, got {type(self.strategy).__name__}."
            )
        if not has_estimates(type(self.strategy)):
            raise ValueError(
                "Expected a strategy with estimates to follow (Means, Counts, Quantiles, TwoWay, "
                f"PrivateEvaluation), got {type(self.strategy).__name__}."
            )
        if getattr(self.strategy, "chooses_cells", False):
            raise ValueError("Expected TwoWay with cells in a series, got cells=None.")
        self.epsilon, self.min_reports = self.strategy.epsilon, self.strategy.min_reports
        self.study, self.study_key = self.strategy.study, self.strategy.study_key
        if isinstance(self.strategy, AtNode):
            self.noise, self.delta = self.strategy.noise, self.strategy.delta
            self.honest = self.strategy.honest
        super().__post_init__()
        check_integer("collections", self.collections, 2, _MAX_COLLECTIONS)
        if not isinstance(self.store, str | Path | None):
            raise ValueError(f"Expected store to be a path, got {self.store!r}.")
        check_truth("memoised", self.memoised)
        if self.season is not None:
            check_integer("season", self.season, 2)
            if self.collections < (least := PERIODS * self.season):
                raise ValueError(
                    f"Expected collections >= {least} with a season of {self.season}, "
                    f"got {self.collections}."
                )
            if self.memoised:
                check_unused(self, "with memoised, whose levels are not smoothed", "season")
        if self.noise != "user":
            if self.memoised:
                raise ValueError(
                    "Expected memoised=False with noise='node', got True: a node draws its noise "
                    "anew for each collection."
                )
            self.share = 1 / self.collections
            self._few_in_collection(MAX_USERS)  # refuses too many collections now
        self._form: PermanentForm | None = None
        if self.memoised and isinstance(self.strategy, AsksPermanently):
            self._form = self.strategy.permanent()
        if self.memoised and self._form is None:
            raise ValueError(
                f"Expected memoised Counts, or Means without by, got {self.strategy!r}."
            )
        self.schema = getattr(self.strategy, "schema", None)
        self._memory = RunStore() if self.store is None else None
        self._kept: RunStore  # store of the series, during a collection
        self._number = 0  # number of the present collection; 0 if there is none
        self._smallest: int  # number of users in the smallest remaining panel

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield series of two evaluations of a model, with users; an audit runs the first one."""
        for strategy, users in PrivateEvaluation.audit_runs(dim, epsilon):
            yield cls(strategy, collections=2), users

    def with_noise(self, noise: str) -> Self:
        """Return a copy of the series whose noise is at the place ``noise``: node, or shared."""
        return replace(self, strategy=replace(self.strategy, noise=noise))

    @plain_arguments
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
            Number of the collection, from 1, for example the week of the series. A complete
            collection is not repeated. By default it is the one after the last complete collection.
            A skipped collection is missing, and cannot run once a later one has begun.

        Raises
        ------
        ValueError
            If the store belongs to another series, or if this collection cannot run.
        """
        if named.get("store") is not None:
            raise ValueError(
                f"Expected no store in start, got {named['store']!r}. All collections have one, "
                "given as an argument of Series."
            )
        self._check_idle()
        with self._opened_series() as self._kept:
            number = collection_to_run(self._kept, collection, self.collections)
            if complete(self._kept, number):
                return self.result()
            if (salt := self._kept.get("salt")) is not None:
                seed: Any = named.get("seed")
                if is_integer(seed) and simulated_salt(self, seed) != salt:
                    raise ValueError(f"Expected the seed of the first collection, got {seed}.")
                self._kept.part(number).put("salt", salt)
            self._kept.put("begun", number)
            self._number = number
            try:
                return super().start(grid, *arguments, **named)
            finally:
                self._number = 0

    def result(self) -> SeriesResult:
        """Return the levels so far, without a query.

        Raises
        ------
        ValueError
            If no collection is complete.
        """
        with self._opened_series() as kept:
            collected = all_complete(kept)
        return SeriesResult.of(
            collected,
            strategy=f"{type(self).__name__} of {type(self.strategy).__name__}",
            season=self.season,
            question=self.strategy.card.question,
            schema=self.schema,
            collections=self.collections,
        )

    def refusal(
        self, num_users: int, arguments: Arguments | None = None, num_nodes: int = 1
    ) -> TooFew | None:
        """Return why ``num_users`` users are too few for the whole series, or None."""
        if (form := self._form) is not None:
            return self._with_enough(
                lambda users: form.refusal(SizeOnlyPopulation(users), self.min_reports), num_users
            )
        least = self._least(num_users)
        if (few := self._few_in_collection(least, num_nodes)) is None:
            return None
        needed = fewest_users(
            lambda users: self._few_in_collection(self._least(users), num_nodes), num_users
        )
        why = (
            f"{num_users:,} users are divided into {self.collections} panels at random, and the "
            f"smallest panel may get only {least:,}."
        )
        if self.noise != "user":
            why = f"Each of {self.collections} collections has an equal share of the budget."
        return replace(few, why=f"{why} {few.why}", needed=needed)

    def _few_in_collection(self, num_users: int, num_nodes: int = 1) -> TooFew | None:
        """Return why ``num_users`` users are too few for one collection, or None."""
        return self.strategy._tried(num_users, None, num_nodes, self.share)

    def check_census(self, run: Run) -> None:
        """Raise TooFewReports if a panel is too small for the strategy.

        At the first collection all panels are checked, later on only the present one.
        """
        if self._form is not None:
            few = self._form.refusal(run.population, self.min_reports)
        else:
            few = self._few_in_collection(self._smallest, run.population.num_nodes)
        if few is not None:
            # There was no query, so the next attempt takes a new census.
            self._kept.part(self._number).clear()
            raise TooFewReports(few)

    def protocol(self, run: Run) -> AnyProtocol:
        """Run the strategy on this collection's users, or query all users for permanent bits.

        Return the collection's result.
        """
        if (form := self._form) is None:
            return (yield from self.strategy.protocol(run))
        bits = yield from ask_for_bits(form, run.population, self.collections)
        values, errors = level_of(form, bits)
        change, of_change = np.full(len(values), np.nan), np.full(len(values), np.inf)
        last = max((n for n in range(1, self._number) if complete(self._kept, n)), default=None)
        if last is not None:
            change, of_change = change_of(form, bits, kept_bits(self._kept.part(last)))
        return BitsResult(
            names=form.names,
            values=values,
            std_errors=errors,
            change=change,
            change_std_error=of_change,
            bits=bits,
        )

    @property
    def row_features(self) -> int | None:
        """Number of features of the users' rows that the strategy requires."""
        return self.strategy.row_features

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Request the users' permanent numbers, so that their panels and coins do not change."""
        return RecordDict({} if self.noise != "user" else {NUMBERS: ConfigRecord()})

    def prints(self) -> dict[str, Print | str]:
        """Return the hash and the description of each parameter that identifies a series.

        ``season`` is left out, because it may be set after the series has started.
        """
        own = prints_of(self)
        of_strategy = {f"strategy.{name}": each for name, each in prints_of(self.strategy).items()}
        return {**of_strategy, **{name: own[name] for name in ("collections", "memoised")}}

    @contextmanager
    def _opened_series(self) -> Iterator[RunStore]:
        """Open the store of the series; raise an error if it belongs to another series."""
        if self._memory is not None:
            yield self._memory
            return
        with RunStore(self.store).open() as kept:
            recognise(kept, type(self.strategy), self.prints())
            yield kept

    @contextmanager
    def _opened_store(self, *_: object) -> Iterator[RunStore]:
        if not self._number:
            raise RuntimeError("Expected a call of Series.start, which runs one collection.")
        yield self._kept.part(self._number)

    def population(self, nodes: Mapping[int, NodeKeys], salt: int) -> Population:
        """Return the users of this collection: its panel or, if noise allows, all users."""
        if self._kept.get("salt") is None:
            self._kept.put("salt", salt)
        if self._form is not None or self.noise != "user":
            everyone = Population(nodes, salt)
            self._smallest = len(everyone)
            return everyone
        panel = Panel(nodes, salt, self._number, self.collections)
        self._smallest = int(panel.sizes.min()) if self._number == 1 else len(panel)
        return panel

    def _least(self, num_users: int) -> int:
        """Return a number of users that the smallest panel is nearly certain to have at least.

        With noise at the node every collection has all users.
        """
        if self.noise != "user":
            return num_users
        return SizeOnlyPopulation(num_users).between(0, HASH_END // self.collections).size

    def finished(self, run: Run, found: Any) -> SeriesResult:
        """Store this collection's estimates and return the result so far.

        The result has the estimates of each collection, and the levels that the local-level model
        smooths from all of them.
        """
        estimates = found.estimates()
        assert found.privacy is not None
        own = Collected(
            number=self._number,
            names=estimates.names,
            values=estimates.values,
            std_errors=estimates.std_errors,
            users_std_errors=estimates.users_std_errors if self.noise != "user" else None,
            num_users=found.num_users,
            asked=run.num_users,
            reports=run.users("reports"),
            no_budget=found.no_budget,
            steps=found.steps,
            notes=found.notes,
            privacy=found.privacy,
        )
        if isinstance(found, BitsResult):
            keep_bits(self._kept.part(self._number), found.bits)
            own = replace(own, change=found.change, change_std_error=found.change_std_error)
        self._kept.part(self._number).put("collected", to_plain(own))
        return self.result()
