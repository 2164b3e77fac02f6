"""Calling a client as a server would, for the audit, and watching its mechanism.

With the same random bytes a client is asked again with the same noise and other data, or with the
same data and other noise of some users.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from flwr.app import Context, Message
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

_OTHER = 1  # what distinguishes a row's second take from its first

#: A block of values, what it comes with, and the reports that it becomes.
Block = tuple[Floats, object, NDArray[Any]]

_MAX_COPIES = 16  # of a user on one node; each has a coin of its own
_MAX_SIZE = 1 << 12  # of debiased reports; larger ones do not fit in memory by the thousand


@dataclass(frozen=True)
class Client:
    """A client under audit: how to make its app, and the query that nodes are sent by default."""

    query: Query
    make_app: MakeApp

    def answers(
        self, users: Users, seeds: Sequence[int | None], queries: Iterable[Query] = ()
    ) -> list[Report]:
        """Ask one node per seed, all with the same users, and return what they answer.

        With several ``queries``, every node is asked one after the other. A RuntimeError says that
        a node refuses: then there is nothing to audit, or refusing distinguishes users.
        """
        return [
            report
            for reports in self.answers_in_turn(users, queries or [self.query], seeds)
            for report in reports
        ]

    def answers_in_turn(
        self, users: Users, queries: Iterable[Query], seeds: Sequence[int | None] = (None,)
    ) -> Iterator[list[Report]]:
        """Ask one node per seed as in :meth:`answers`; yield what they answer to every query."""
        users = replace(users, first=0)  # the same keys on every node, hence the same coins
        app = self.make_app(lambda _: users, lambda context: seeds[context.node_id - 1])
        grid = InProcessGrid(app, len(seeds))
        for query in queries:
            content = query.to_record_dict()
            asked = [Message(content, node, f"query.{QUERY}") for node in grid.get_node_ids()]
            replies = list(grid.send_and_receive(asked))
            errors = {str(reply.error.reason) for reply in replies if reply.has_error()}
            if errors or len(replies) != len(seeds):
                raise RuntimeError(f"The client did not answer: {'; '.join(errors) or 'lost'}.")
            yield [Report.from_record_dict(reply.content) for reply in replies]

    def copies(self, user: Users) -> int:
        """Return how many copies of a user a node can hold and still send single reports."""
        copies = _MAX_COPIES
        while "reports" not in self.answers(copied(user, copies), [0])[0].arrays:
            if copies == 1:
                raise RuntimeError("The client sends no single reports, even of one user.")
            copies //= 2
        return copies

    def single_reports(self, answer: Report) -> tuple[Slots, Reports]:
        """Return slots and their reports, none if those are not of the mechanism's form."""
        slots = answer.arrays.get("slots", np.zeros(0)).astype(np.int64)
        reports = answer.arrays.get("reports", np.zeros(0))
        dtype, shape = self.query.randomizer.report_dtype, self.query.randomizer.report_shape
        if reports.dtype != dtype or reports.shape != (len(slots), *shape):
            return np.zeros(0, np.int64), np.zeros((0, *shape), dtype)
        return slots, reports

    def sample(self, user: Users, copies: int, seeds: Sequence[int | None]) -> Sample:
        """Return the single reports of copies of a user, on one node per seed.

        Copies that were not answered for have the code 0, which is a hash once in 2**64.
        """
        answers = [self.single_reports(a) for a in self.answers(copied(user, copies), seeds)]
        slots = np.concatenate([slots for slots, _ in answers])
        reports = np.concatenate([reports for _, reports in answers])
        # int() for reports without dimensions, whose product is a float
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


def ldp_client_app(
    load_users: Callable[[Context], Users],
    seed: Callable[[Context], int | None],
    statistics: OwnStatistics | None = None,
) -> ClientApp:
    """Return the ClientApp that is audited by default."""
    return LdpClientApp(load_users, seed=seed, statistics=statistics)


# ------------------------------------------- replayed randomness, noted mechanisms


def replaced(owner: type | ModuleType, **methods: Any) -> AbstractContextManager[Any]:
    """Give a class or a module these functions for as long as the block runs."""
    patch: AbstractContextManager[Any] = mock.patch.multiple(owner, create=True, **methods)
    return patch


@contextmanager
def entering(mechanism: Randomizer) -> Iterator[list[Block]]:
    """Note every block that mechanisms of this type randomise, what it comes with and becomes.

    Of a mechanism for records the sums over records are noted, before they are rounded, with the
    numbers of records; of others the values, with the block's layout and type.
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
        block = np.array(values, np.float64)  # as it comes
        reports = honest(self, values, *rest, **named)
        noted.append((block, about, np.array(reports)))
        return reports

    with replaced(kind, **{name: noting}):
        yield noted


@dataclass
class RecordedRandomness:
    """Bytes for every row of every draw, by a seed, and the shapes that have been drawn.

    The bytes of ``redrawn`` users, by their row in a draw, are others from draw ``from_draw`` to
    ``to_draw``; by default nobody's. ``behind`` users come before the one of a draw's first row.
    """

    seed: int
    redrawn: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    from_draw: int = 0
    to_draw: int = 1 << 62
    draws: list[tuple[int, ...]] = field(default_factory=list)
    behind: int = 0

    def words(self, first: int, shape: tuple[int, ...]) -> Words:
        """Return the next words for users ``first`` and behind."""
        draw, rows = len(self.draws), self.behind + np.arange(first, first + shape[0])
        self.draws.append(shape)
        states = derive(self.seed, 0, draw, rows)
        if self.from_draw <= draw < self.to_draw and len(self.redrawn):
            others = self.redrawn[np.minimum(rows, len(self.redrawn) - 1)]
            states = np.where(others, derive(self.seed, _OTHER, draw, rows), states)
        return KeyedRandom(states).words(shape)


class _Played(RandomSource):
    """The part of a tape that begins with a user."""

    def __init__(self, tape: RecordedRandomness, first: int) -> None:
        self._tape, self._first = tape, first

    def words(self, shape: tuple[int, ...]) -> Words:
        """Return words of the tape."""
        return self._tape.words(self._first, shape)


@contextmanager
def replaying(tape: RecordedRandomness) -> Iterator[RecordedRandomness]:
    """Let every :class:`SystemRandom` of this process read the tape."""

    def words(source: SystemRandom, shape: tuple[int, ...]) -> Words:
        return tape.words(0, shape)

    def blocks(source: SystemRandom, users: int, size: int) -> Iterator[tuple[slice, RandomSource]]:
        for start in range(0, users, size):
            yield slice(start, min(start + size, users)), _Played(tape, start)

    with replaced(SystemRandom, words=words, blocks=blocks):
        yield tape
