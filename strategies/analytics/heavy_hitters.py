"""HeavyHitters: a strategy that finds the users' most frequent items and counts them."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy.stats import binom, norm

from ldp_flower.data.schema import Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Expectation, NoPlan, Setting, WouldRefuse
from ldp_flower.questions import DrawnItems, FrequentItems
from ldp_flower.randomizers import Estimate, FrequencyOracle, PrefixExtending, SubsetSelection
from ldp_flower.randomizers.items.prefix import PrefixTree
from ldp_flower.validation import Floats, check_choice, check_fraction, check_integer, check_unused

from ..forecasts.formulas import chances_to_find, expected_misses, zipf
from ..forecasts.populations import features_of
from ..runtime import Answers, Ask, Card, LdpStrategy, Protocol, Run, guarantees
from ..runtime.at_node import AtNode
from ..runtime.population import MAX_USERS, fewest_users
from ..sums import items as sums
from ..sums.budget import Budget
from .heavy_hitters_result import HeavyHittersResult, Integers
from .item_mechanism import MAX_DIRECT, Backend, Mechanism, choose_mechanism

_MAX_DOMAIN = 1 << 40  # well below 2**53, up to which floats represent integers exactly
Item = Literal["random", "most-frequent"]
Cutoff = Literal["any", "fdr"]
_LEVELS: dict[Cutoff, float] = {"any": 0.01, "fdr": 0.05}  # default false_alarm

# If no item is found, a note states how many users are needed to find an item of the frequency
# _ADVISED_FREQUENCY with the probability _ADVISED_PROBABILITY.
_ADVISED_FREQUENCY = 0.05
_ADVISED_PROBABILITY = 0.95
_LARGEST_EPSILON = 16.0  # largest epsilon that the note advises


@dataclass(kw_only=True, eq=False, repr=False)
class HeavyHitters(AtNode, LdpStrategy[HeavyHittersResult]):
    """Strategy that finds the most frequent items and estimates their counts.

    Every user sends one report, either on the item of a random row or on its most frequent item.
    The server returns the items whose estimated count is significantly above zero. Their number
    need not be known in advance.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy` and
    :class:`~..runtime.at_node.AtNode`. With noise at the node, all items of all users are counted,
    so the domain has at most 65,536 items, and ``set_size``, ``item`` and ``backend`` have no
    effect. Each row of a user with k rows counts 1 / k for its item.

    Parameters
    ----------
    domain_size : int
        Number of possible items, 2 to 2**40. Items are the integers below it. Strings need
        ``2**num_bits``, by default 2**40 (see :meth:`ldp_flower.Users.from_items`). With a smaller
        domain most hashes of strings are invalid items. The nodes' logs show this, but the result
        cannot.
    set_size : int (default: 1)
        Number of distinct items in a user's report: those of random rows, drawn one after the
        other, or the user's most frequent items. A value above 1 requires a domain of at most
        2**20 items.
    item : str (default: "random")
        The item that a user with several rows reports. ``"random"``: the item of a random row, so
        that an item counts for the share of the user's rows that have it. ``"most-frequent"``: the
        item that most of its rows have; ties are broken at random.
    max_items : int (default: 64)
        Largest number of items to return. The most frequent items are returned.
    cutoff : str (default: "any")
        The error that ``false_alarm`` bounds. ``"any"``: the probability that at least one returned
        item is held by no user. ``"fdr"``: the expected share of such items among the returned
        items (false discovery rate), which finds more items. ``"fdr"`` requires a domain of at most
        2**20 items.
    false_alarm : float, optional
        The bound on that error. By default it is 0.01, and 0.05 with ``cutoff="fdr"``.
    backend : str (default: "auto")
        ``"auto"``, ``"direct"``, ``"prefix"`` or ``"tree"``: the kind of the reports and of their
        decoding, see :func:`~ldp_flower.strategies.analytics.item_mechanism.choose_mechanism`.

    Notes
    -----
    Sources: Wang, Blocki, Li & Jha (2017) and Ye & Barg (2018) for the direct oracles, Wang et al.
    (2018, PrivSet) for sets, Wang, Li & Jha (2021, PEM) and Bassily, Nissim, Stemmer & Thakurta
    (2020, TreeHist) for huge domains. Each of n reports supports an item that its user does not
    hold with probability q. So the support of an item that no user holds is Binomial(n, q). The
    cut-off is the upper quantile of this distribution at ``false_alarm / domain_size`` (with
    prefixes, ``false_alarm`` over the number of candidates), so that the union bound over the
    domain holds. With ``"prefix"`` and ``"tree"`` it holds up to hash collisions (2**-25 in q).
    ``cutoff="fdr"`` is the procedure of Benjamini & Hochberg (1995). An item's p-value is the
    probability that an item that no user holds reaches its support. The items are ranked by
    support. The last item whose p-value is at most ``false_alarm`` times its rank over
    ``domain_size`` is returned, with all items before it.

    Users without any item do not affect the counts, unless the domain leaves no number to stand
    for a missing item (2**20 items with direct counts, a power of two with prefixes). In that case
    each of these users is treated as holding a random item.
    """

    users_advice = (
        "Users with items are made by Users.from_items(items, groups); a column of categories of a "
        "table is counted by Counts(schema, column). "
    )
    plans_with = frozenset({"num_features"})
    guarantee = (guarantees.USER, guarantees.NON_INTERACTIVE, guarantees.ENFORCED)
    card = Card(
        question="most frequent items and their counts; sparse distributions",
        guarantee="pure epsilon",
        rounds="1, non-interactive",
        report="1-2, in small domains up to 64; more for sets",
        use_when="items are numbers or strings, of domains up to 2^40",
        fails_when="for items below its cut-off: at epsilon 1 those that 5 % of 20,000 users hold, "
        "or less than a fifth of 2,000",
        page="heavy-hitters",
    )

    domain_size: int = field(kw_only=False)
    # Positional, so that HeavyHitters(schema, column) is refused by an error that says what to do.
    set_size: int = field(default=1, kw_only=False)
    item: Item = "random"
    max_items: int = 64
    cutoff: Cutoff = "any"
    false_alarm: float | None = None
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.domain_size, Schema):
            raise ValueError(
                "Expected domain_size, a number of possible items, got a Schema. Users hold items "
                "without a schema: Users.from_items(table[column]) and HeavyHitters(2**40, ...). A "
                "column of known categories is counted by Counts(schema, column)."
            )
        check_integer("domain_size", self.domain_size, 2, _MAX_DOMAIN)
        check_integer("set_size", self.set_size, 1, self.domain_size)
        check_integer("max_items", self.max_items, 1, 1 << 15)
        check_choice("cutoff", self.cutoff, get_args(Cutoff))
        if self.false_alarm is not None:
            check_fraction("false_alarm", self.false_alarm)
        self._level = self.false_alarm or _LEVELS[self.cutoff]
        if self.noise != "user":
            check_unused(self, "with noise='node'", "set_size", "item", "backend")
            if self.domain_size > sums.MOST_ITEMS:
                raise ValueError(
                    f"Expected domain_size <= {sums.MOST_ITEMS} with noise='node', got "
                    f"{self.domain_size}. Number the possible items, or hash texts to fewer bits "
                    "here and at the users: Users.from_items(..., num_bits=16)."
                )
        direct = self.domain_size <= MAX_DIRECT and self.backend in ("auto", "direct")
        if self.cutoff == "fdr" and not direct:
            raise ValueError(
                f"Expected direct counts (domain_size <= {MAX_DIRECT}) with cutoff='fdr', got "
                f"domain_size {self.domain_size} and backend {self.backend!r}."
            )
        check_choice("item", self.item, get_args(Item))
        check_choice("backend", self.backend, get_args(Backend))
        if self.domain_size > MAX_DIRECT and (self.backend == "direct" or self.set_size > 1):
            raise ValueError(
                f"Expected domain_size <= {MAX_DIRECT} for direct counts and for sets of items, "
                f"got {self.domain_size}."
            )
        if self.set_size > 1 and self.backend in ("prefix", "tree"):
            raise ValueError(
                f"Expected set_size 1 with backend {self.backend!r}, got {self.set_size}."
            )
        PrefixExtending(self.epsilon, 1)  # raises an error now if epsilon is invalid
        if self.set_size > 1:  # raises an error now if sets are too large
            SubsetSelection(
                self.epsilon, min(self.domain_size + self.set_size, MAX_DIRECT), self.set_size
            )

    @property
    def row_features(self) -> int:
        """Number of features that users' rows need to have: 1, the item."""
        return 1

    def randomizer(self, num_users: int) -> Mechanism:
        """Return the mechanism for a run with ``num_users`` users."""
        return choose_mechanism(
            self.epsilon,
            self.domain_size,
            num_users,
            set_size=self.set_size,
            max_items=self.max_items,
            backend="direct" if self.cutoff == "fdr" else self.backend,
        )

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: of direct counts, and of each prefix tree."""
        users = Users.from_items(np.arange(3000) % dim, np.arange(3000) // 2)
        yield cls(dim, epsilon=epsilon), users
        yield cls(dim, epsilon=epsilon, item="most-frequent"), users
        if dim > 2:
            yield cls(dim, epsilon=epsilon, set_size=2), users
        backends: tuple[Backend, ...] = ("prefix", "tree")
        for backend in backends:
            yield cls(dim, epsilon=epsilon, backend=backend), users

    def protocol(self, run: Run) -> Protocol:
        """Query all users once and return the frequent items."""
        if self.noise != "user":
            return (yield from self._at_node(run))
        mechanism = self.randomizer(run.num_users)
        cohorts = run.cohorts([run.num_users])
        kind = DrawnItems if self.item == "random" else FrequentItems
        question = kind(self.set_size, self.domain_size)
        answer = yield Ask(cohorts[0], question, mechanism)
        if isinstance(mechanism, FrequencyOracle):
            return self._counted(mechanism, answer)
        return self._descended(mechanism, answer)

    def _at_node(self, run: Run) -> Generator[Ask, Any, HeavyHittersResult]:
        budget = Budget.of(run, self.delta)
        counts, error, users = yield from sums.ask_items(budget, self.domain_size)
        law = norm(scale=error)
        found, cut = self._found(counts, law)
        few = sums.too_few(budget, self.domain_size, self._level)
        notes = [] if len(found) or few is None else [str(few)]
        errors = np.full(len(found), error)
        return self._result(found, counts[found], errors, users, cut, notes, counts)

    def _counted(self, oracle: FrequencyOracle, estimate: Estimate) -> HeavyHittersResult:
        """Return the result: the items whose counts are significant, from counts of all items."""
        users = estimate.count
        gap, other = float(oracle.own - oracle.other), float(oracle.other)
        counts = users * estimate.mean[: self.domain_size]
        support = np.rint(counts * gap + users * other)
        law = binom(users, other)
        items, cut = self._found(support, law, 1)
        shares = np.clip(counts[items] / users, 0.0, 1.0)
        errors = np.sqrt([users * oracle.variance_at(share) for share in shares])
        cutoff = (math.floor(cut) - users * other) / gap  # supports are integers
        notes = [] if len(items) else [self._advice(oracle, users, cutoff)]
        return self._result(items, counts[items], errors, users, cutoff, notes, counts)

    def _result(
        self,
        items: Integers,
        counts: Floats,
        errors: Floats,
        users: int,
        cutoff: float,
        notes: list[str],
        all_counts: Floats | None = None,
    ) -> HeavyHittersResult:
        """Return the result, from the counts of the found items and their errors by noise.

        The errors in the population include the sampling of users and of their items.
        """
        shares = np.clip(counts / users, 0.0, 1.0)
        return HeavyHittersResult(
            domain_size=self.domain_size,
            items=items,
            counts=counts,
            std_error=np.sqrt(errors**2 + users * shares * (1 - shares)),
            users_std_error=errors,
            cutoff=cutoff,
            all_counts=all_counts,
            notes=notes,
        )

    def _found(self, scores: Floats, law: Any, unit: int = 0) -> tuple[Integers, float]:
        """Return the items with significant scores, largest first, and the score to exceed.

        Parameters
        ----------
        scores : ndarray of float64, shape (domain_size,)
            Score of each item, such as the number of reports that support it.
        law : frozen distribution of scipy.stats
            Distribution of the score of an item of no user.
        unit : int (default: 0)
            Smallest difference of two scores; 0 if they are continuous.
        """
        level = self._level / self.domain_size
        cut = float(law.isf(level))
        order = np.argsort(-scores, kind="stable")
        if self.cutoff == "fdr":
            falling = scores[order]
            allowed = level * np.arange(1, len(falling) + 1)
            few = np.flatnonzero(law.sf(falling - unit) <= allowed)
            if len(few):
                cut = float(np.nextafter(falling[few[-1]], -np.inf))
        order = order[: self.max_items]
        return order[scores[order] > cut], cut

    def _descended(self, tree: PrefixTree, answers: Answers) -> HeavyHittersResult:
        """Return the result: the items that the prefix tree finds, without the "no item"."""
        found = tree.heavy_hitters(answers.reports, answers.coins, self.max_items + 1, self._level)
        kept = np.flatnonzero(found.items < self.domain_size)[: self.max_items]
        items, counts, errors = found.items[kept], found.counts[kept], found.std_errors[kept]
        notes = [] if len(kept) else [self._advice(tree, answers.count, found.cutoff)]
        return self._result(items, counts, errors, answers.count, found.cutoff, notes)

    def _advice(self, mechanism: Mechanism, users: int, cutoff: float) -> str:
        """Return a note: the size of the noise, and what a frequent item would need to be found."""
        noise = math.sqrt(mechanism.variance / users)
        text = (
            f"No item exceeds the noise: with {users} reports the standard error of a frequency "
            f"is {noise:.2g}, and an item is returned above {cutoff / users:.2g}."
        )
        return f"{text} {self._to_see(mechanism, users)}"

    def _to_see(self, mechanism: Mechanism, users: int) -> str:
        """Return a note with the number of users, or the epsilon, that finds a frequent item.

        The item is one that 5 % of the users hold, and is to be found with a probability of 95 %.
        """

        def hidden(users: int, epsilon: float = mechanism.epsilon) -> bool:
            stronger = replace(mechanism, epsilon=epsilon)
            options = (self.domain_size, self.max_items, self._level)
            frequency = np.array([_ADVISED_FREQUENCY])
            found = chances_to_find(stronger, users, frequency, *options)
            return bool(found < _ADVISED_PROBABILITY)

        if not hidden(users):
            return f"An item that {_ADVISED_FREQUENCY:.0%} of them hold would very likely be seen."
        needed = fewest_users(hidden, users) or MAX_USERS
        about = "about" if needed < MAX_USERS else "more than"
        digits = max(1, 10 ** (math.floor(math.log10(needed)) - 1))
        epsilon = mechanism.epsilon
        while epsilon <= _LARGEST_EPSILON and hidden(users, epsilon):
            epsilon *= 1.1
        instead = f" or epsilon {epsilon:.2g}" if epsilon <= _LARGEST_EPSILON else ""
        return (
            f"To see an item that {_ADVISED_FREQUENCY:.0%} of them hold, {about} "
            f"{math.ceil(needed / digits) * digits} users{instead} are needed."
        )

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for a domain of ``num_features`` items."""
        return cls(features_of(setting, cls), epsilon=epsilon)

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected share of the ten most frequent items that is not found.

        Raises
        ------
        NoPlan
            If users report sets of items, or with ``cutoff="fdr"``.
        WouldRefuse
            If there are too few users.
        """
        if self.set_size > 1:
            raise NoPlan(
                f"Expected set_size 1 for a plan, got {self.set_size}: which items go together is "
                "not known."
            )
        if self.cutoff == "fdr":
            raise NoPlan('Only cutoff="any" of HeavyHitters has a plan.')
        users = setting.num_users
        if refusal := self.refusal(users):
            raise WouldRefuse(refusal)
        if self.noise != "user":
            budget = Budget(self.epsilon, self.delta, users, setting.num_nodes or 1)
            shares = zipf(self.domain_size)
            few = sums.too_few(budget, self.domain_size, self._level)
            notes = [] if few is None else [str(few)]
            chances = sums.chances_to_find(budget, shares, self._level)
            return expected_misses(budget.cells(self.domain_size, 1.0), chances, notes)
        mechanism = self.randomizer(users)
        chances = chances_to_find(
            mechanism, users, zipf(self.domain_size), self.domain_size, self.max_items, self._level
        )
        return expected_misses(mechanism, chances, [self._to_see(mechanism, users)])
