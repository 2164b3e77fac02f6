"""Tools of the audit that call a client as a server would, and observe its mechanism.

With recorded random bytes, a client is queried again with the same noise and other data, or with
the same data and new noise for some users.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from ..clients import LdpClientApp
from ..clients.statistics import OwnStatistics
from ..data.users import Users
from ..guarantee.messages import QUERY, NodeKeys, Query, Report, Slots
from ..randomizers import Randomizer, RecordMechanism
from ..randomizers.base import Reports
from ..randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ..simulation.grid import InProcessGrid
from ..validation import Floats
from .distinguish import Sample
from .extreme_users import copied

MakeApp = Callable[[Callable[[Context], Users], Callable[[Context], int | None]], ClientApp]

_OTHER = 1  # part of the seed of redrawn bytes, so that they differ from the first ones

#: Values that a mechanism randomised at once, facts about their layout, and the reports from them.
Block = tuple[Floats, object, NDArray[Any]]

_MAX_COPIES = 16  # largest number of copies of a user on one node; each has a different coin
_MAX_SIZE = 1 << 12  # largest size of debiased reports of which thousands fit in memory


@dataclass(frozen=True)
class Client:
    """Client under audit: ``make_app`` makes its app, ``query`` is the default query."""

    query: Query
    make_app: MakeApp

    def answers(
        self, users: Users, seeds: Sequence[int | None], queries: Iterable[Query] = ()
    ) -> list[Report]:
        """Query one node per seed, all with the same users, and return their answers.

        A seed of None stands for the randomness of the system, as in a deployment. With several
        ``queries``, every node gets one query after the other. Raise RuntimeError if a node
        refuses: then there is nothing to audit, or the refusal itself distinguishes users.
        """
        in_turn = self.answers_in_turn(users, queries or [self.query], seeds)
        return [report for reports in in_turn for report in reports]

    def answers_in_turn(
        self, users: Users, queries: Iterable[Query], seeds: Sequence[int | None] = (None,)
    ) -> Iterator[list[Report]]:
        """Yield the answers of all nodes to each of the ``queries``, one query after the other.

        There is one node per seed, with the same users, as in :meth:`answers`.
        """
        users = replace(users, first=0)  # the same keys on every node, hence the same coins
        app = self.make_app(lambda _: users, lambda context: seeds[context.node_id - 1])
        grid = InProcessGrid(app, len(seeds))
        for query in queries:
            yield self.ask(grid, query)

    def ask(self, grid: InProcessGrid, query: Query) -> list[Report]:
        """Return the answers of all nodes of a grid to a query."""
        asked = [query.to_record_dict()] * len(grid.contexts)
        replies = replies_to(grid, f"query.{QUERY}", asked)
        return [Report.from_record_dict(reply.content) for reply in replies]

    def copies(self, user: Users) -> int:
        """Return the largest number of copies of a user for which a node sends single reports.

        For more users, a node sends the sum of their reports, in which no single report can be
        attacked.
        """
        copies = _MAX_COPIES
        while "reports" not in self.answers(copied(user, copies), [0])[0].arrays:
            if copies == 1:
                raise RuntimeError("The client sends no single reports, even of one user.")
            copies //= 2
        return copies

    def single_reports(self, answer: Report) -> tuple[Slots, Reports]:
        """Return the slots (indices of users on the node) in a node's answer, and their reports.

        Both are empty if the reports lack the type or shape that the mechanism states.
        """
        slots = answer.arrays.get("slots", np.zeros(0)).astype(np.int64)
        reports = answer.arrays.get("reports", np.zeros(0))
        dtype, shape = self.query.randomizer.report_dtype, self.query.randomizer.report_shape
        if reports.dtype != dtype or reports.shape != (len(slots), *shape):
            return np.zeros(0, np.int64), np.zeros((0, *shape), dtype)
        return slots, reports

    def sample(self, user: Users, copies: int, seeds: Sequence[int | None]) -> Sample:
        """Return a sample of the single reports of copies of a user, on one node per seed.

        Two users' samples are compared to bound the privacy loss. Copies without a report have the
        code 0, which is the hash of a report with probability 2**-64.
        """
        answers = [self.single_reports(a) for a in self.answers(copied(user, copies), seeds)]
        slots = np.concatenate([slots for slots, _ in answers])
        reports = np.concatenate([reports for _, reports in answers])
        # int() is needed for reports without dimensions, for which np.prod returns a float.
        flat = np.ascontiguousarray(reports).reshape(len(slots), int(np.prod(reports.shape[1:])))
        columns = flat.view(np.uint8).T.astype(np.uint64)
        missing = np.zeros(max(0, copies * len(seeds) - len(slots)), np.uint64)
        codes = np.concatenate([derive(slots.astype(np.uint64), *columns), missing])
        values = np.zeros((len(codes), 0))
        if self.query.randomizer.debiasable and self.query.randomizer.size <= _MAX_SIZE:
            coins = NodeKeys(0, 0, copies).coins(self.query.salt, self.query.step, slots)
            with np.errstate(all="ignore"):
                debiased = np.nan_to_num(self.query.randomizer.debias(reports, coins))
            values = np.zeros((len(codes), debiased.shape[1]))
            values[: len(slots)] = np.clip(debiased, -1e100, 1e100)
        expected = np.tile(np.arange(copies), len(seeds))
        return Sample(codes, values, np.array_equal(slots, expected))


def derived_seeds(number: int, *parts: int) -> list[int | None]:
    """Return seeds for ``number`` nodes, which follow from the integers ``parts``."""
    return [int(word) for word in derive(*parts, np.arange(number, dtype=np.uint64))]


def all_of(*results: Mapping[str, bool]) -> dict[str, bool]:
    """Return checks by name: True if the check passed in all of the results that have it."""
    names = dict.fromkeys(name for each in results for name in each)
    return {name: all(each.get(name, True) for each in results) for name in names}


def replies_to(grid: InProcessGrid, kind: str, contents: Sequence[RecordDict]) -> list[Message]:
    """Return the replies of all nodes of a grid, each to its content in a message of this type.

    Raise RuntimeError if a node refuses.
    """
    pairs = zip(contents, grid.get_node_ids(), strict=True)
    asked = [Message(content, node, kind) for content, node in pairs]
    replies = list(grid.send_and_receive(asked))
    errors = {str(reply.error.reason) for reply in replies if reply.has_error()}
    if errors or len(replies) != len(asked):
        raise RuntimeError(f"The client did not answer: {'; '.join(errors) or 'lost'}.")
    return replies


def ldp_client_app(
    load_users: Callable[[Context], Users],
    seed: Callable[[Context], int | None],
    statistics: OwnStatistics | None = None,
) -> ClientApp:
    """Return the app of this library's client, which is audited if no other app is given."""
    return LdpClientApp(load_users, seed=seed, statistics=statistics)


# ------------------------------------------- replayed randomness, noted mechanisms


def replaced(owner: type | ModuleType, **methods: Any) -> AbstractContextManager[Any]:
    """Return a context that replaces methods of a class, or functions of a module, until it ends.

    The audit thereby observes a client's mechanism, or controls its randomness and its clock.
    """
    patch: AbstractContextManager[Any] = mock.patch.multiple(owner, create=True, **methods)
    return patch


@contextmanager
def entering(mechanism: Randomizer) -> Iterator[list[Block]]:
    """Yield a list that gets a :data:`Block` for each call by which such a mechanism randomises.

    It shows the values before the noise. For a mechanism for records, the input consists of the
    sums over records before they are rounded, and of the numbers of records. For other mechanisms
    it consists of the values, with their layout in memory and their type.
    """
    kind: Any = type(mechanism)
    name = "report" if isinstance(mechanism, RecordMechanism) else "_randomize"
    honest = getattr(kind, name)
    noted: list[Block] = []

    def noting(self: Randomizer, values: Floats, *rest: Any, **named: Any) -> Any:
        if isinstance(self, RecordMechanism):
            about: object = np.asarray(rest[0]).tolist()
        else:
            about = (values.dtype.str, values.flags.c_contiguous)
        block = np.array(values, np.float64)  # a copy from before randomisation
        reports = honest(self, values, *rest, **named)
        noted.append((block, about, np.array(reports)))
        return reports

    with replaced(kind, **{name: noting}):
        yield noted


@dataclass
class RecordedRandomness:
    """Random bytes that a client can be given again, for every user and every draw of a client.

    The bytes follow from ``seed``. ``redrawn`` is a mask of users, by their row in a draw. These
    users get different bytes in the draws from ``from_draw`` to before ``to_draw``; by default no
    users do. ``draws`` are the shapes of the draws so far. ``behind`` is the number of users before
    the user of a draw's first row.
    """

    seed: int
    redrawn: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    from_draw: int = 0
    to_draw: int = 1 << 62
    draws: list[tuple[int, ...]] = field(default_factory=list)
    behind: int = 0

    def words(self, first: int, shape: tuple[int, ...]) -> Words:
        """Return the next random 64-bit words for ``shape[0]`` users, from ``first`` on."""
        draw, rows = len(self.draws), self.behind + np.arange(first, first + shape[0])
        self.draws.append(shape)
        states = derive(self.seed, 0, draw, rows)
        if self.from_draw <= draw < self.to_draw and len(self.redrawn):
            others = self.redrawn[np.minimum(rows, len(self.redrawn) - 1)]
            states = np.where(others, derive(self.seed, _OTHER, draw, rows), states)
        return KeyedRandom(states).words(shape)


class _Played(RandomSource):
    """Random source of a client that reads recorded bytes, from the user ``first`` on."""

    def __init__(self, tape: RecordedRandomness, first: int) -> None:
        self._tape, self._first = tape, first

    def words(self, shape: tuple[int, ...]) -> Words:
        """Return the next recorded words, instead of random ones."""
        return self._tape.words(self._first, shape)


@contextmanager
def replaying(tape: RecordedRandomness) -> Iterator[RecordedRandomness]:
    """Let all randomness of this process come from ``tape`` inside this context.

    Clients of a deployment draw from :class:`SystemRandom`, which reads the tape here.
    """

    def words(source: SystemRandom, shape: tuple[int, ...]) -> Words:
        return tape.words(0, shape)

    def blocks(source: SystemRandom, users: int, size: int) -> Iterator[tuple[slice, RandomSource]]:
        for start in range(0, users, size):
            yield slice(start, min(start + size, users)), _Played(tape, start)

    with replaced(SystemRandom, words=words, blocks=blocks):
        yield tape
