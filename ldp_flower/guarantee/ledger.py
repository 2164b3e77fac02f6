"""The ledger file: the privacy budget that each user has spent, and the answers given so far.

A first transaction debits the users who can pay, and stores which users these are in the row of the
reply. It ends before the client computes with any data. A second transaction stores the encoded
reply in the same row, before the client sends it. So every visible effect of data has its cost on
the ledger: a reply, a missing reply and the time that a reply takes. If the server repeats a query
(after a lost reply, a time-out or a crash), the client sends the stored bytes. If no reply is
stored yet, the same users answer. Neither repetition costs more.

The first report of a plan pays for all reports of the plan. The ledger counts the reports and
allows only as many as were paid.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ..randomness import Words
from . import one_time_keys, study_book
from .answer_lock import answering
from .budget import Cost, PrivacyPolicy
from .ledger_file import LedgerError, LedgerFile, begins_period, fact, latest, series_keys
from .limits import Allowed, Limit, limits_of
from .one_time_keys import OneTimeKey
from .peers import Peers
from .shared_sums import Commit
from .studies import Study

Accounts = NDArray[Any]
EpsilonAfter = Callable[[int], float]  # function from a number of reports to their epsilon


@dataclass(frozen=True)
class Entry:
    """Entry of a query in the ledger, which is made before the answer is computed.

    ``digest`` identifies the query: a query with the same digest is a repetition. The other fields
    are for the operator to read: the number of the run that the server states, the name of the
    question and the class of the mechanism.
    """

    digest: str
    run_id: int = 0
    statistic: str = ""
    mechanism: str = ""


@dataclass(frozen=True)
class PermanentSeries:
    """A series of collections in which each user's answer follows from its value and a secret.

    ``coins`` holds a public random number of each user. It may not change in a series, see
    :func:`~.ledger_file.series_keys`.
    """

    name: str
    coins: Sequence[int]


#: Largest number of attempts to compute one answer. The second one follows if the process ended
#: during the first. If the data make the process end, each such end reveals something about them.
ATTEMPTS: Final = 2

# Prefix of the placeholder for a reply that is not computed yet. The number of attempts and a bit
# for each user follow: 1 if the user answers. No encoded report begins with this prefix.
_RESERVED: Final = b"reserved"


@dataclass(frozen=True)
class Claim:
    """State of a query on a ledger: its reply or, as long as there is none, the answering users.

    Attributes
    ----------
    users : ndarray of bool
        Mask of the addressed users: True for those who have paid and so answer.
    attempts : int
        Number of attempts begun to compute the reply.
    reply : bytes or None
        The encoded reply; empty if it was deleted, None if it is not computed yet.
    """

    users: Allowed
    attempts: int = 0
    reply: bytes | None = None

    def with_attempt(self) -> Self:
        """Return the claim with one more attempt to answer the query, at most ``ATTEMPTS`` + 1."""
        return replace(self, attempts=min(self.attempts, ATTEMPTS) + 1)

    def to_bytes(self) -> bytes:
        """Return the claim as bytes, which the ledger stores until there is a reply."""
        return _RESERVED + bytes([self.attempts]) + np.packbits(self.users).tobytes()

    @classmethod
    def of(cls, stored: bytes, count: int) -> Self:
        """Return the claim that a ledger has stored as bytes, on a query to ``count`` users."""
        if not stored.startswith(_RESERVED):
            return cls(np.zeros(count, bool), reply=stored)
        kept = stored.removeprefix(_RESERVED)
        if not kept:  # written by an old version, which reserved for nodes of one user only
            return cls(np.ones(count, bool), 1)
        bits = np.unpackbits(np.frombuffer(kept[1:], np.uint8), count=count)
        return cls(bits.astype(bool), kept[0])


def can_pay(limits: Sequence[Limit], used: NDArray[np.int64], cost: Cost) -> Allowed:
    """Return a mask of the users who can pay ``cost`` within all limits.

    ``used`` is the number of reports that each user has sent in the cost's plan. The first of them
    paid for all ``cost.steps`` reports.
    """
    within = np.logical_and.reduce([each.admits(cost) for each in limits])
    return np.asarray(np.where(used > 0, used + cost.weight <= cost.steps, within))


def refunds(
    used: NDArray[np.int64], cost: Cost, epsilon_after: EpsilonAfter
) -> NDArray[np.float64]:
    """Return the epsilon to give back to each user, who has sent ``used`` reports of a plan.

    It is 0 for a user who has sent none of the plan's reports, or all.
    """
    begun = set(used[is_open(used, cost)].tolist())
    back = {n: cost.epsilon - epsilon_after(n) for n in begun}
    return np.array([max(back.get(n, 0.0), 0.0) for n in used.tolist()])


def is_open(used: NDArray[np.int64], cost: Cost) -> Allowed:
    """Return a mask of the users who have begun a plan: they may still send some reports of it.

    ``used`` is the number of the plan's reports that each user has sent.
    """
    return np.asarray((used > 0) & (used < cost.steps))


class SqliteLedger(LedgerFile):
    """A durable ledger in an SQLite file that the operator has created.

    Accounts are the users' stable ids. Several processes may share the file. Every commit is
    synchronised to the disk before the program goes on.

    Parameters
    ----------
    path : str or Path
        The file that :meth:`create` made (``ldp-flower ledger init``).
    timeout : float (default: 60.0)
        Seconds to wait for another process's transaction.

    Raises
    ------
    LedgerError
        If the file is missing or is not a ledger. All methods raise it, too, if another file has
        replaced this one.
    """

    def answering(self, digest: str) -> AbstractContextManager[None]:
        """Return a context in which no other process answers the query with this digest.

        See :func:`~.answer_lock.answering`.
        """
        return answering(self._path.with_name(f"{self._path.name}-answers"), digest)

    def check(self, unit: str) -> None:
        """Raise LedgerError if a cost with this privacy unit could not be written now.

        A node checks this with each message. A user-level epsilon also bounds
        what each of the user's records loses. A record-level epsilon does not bound what the user
        loses. So a ledger with record-level costs takes no user-level costs.
        """
        with self.transaction() as connection:
            _check_unit(connection, unit)
        with self.open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            # This opens the journal: a folder may forbid new files though the ledger is writable.
            connection.execute("UPDATE fact SET value = value")
            connection.execute("ROLLBACK")

    @staticmethod
    def _columns(
        connection: sqlite3.Connection, accounts: Accounts, query: str, *given: Any, after: str = ""
    ) -> NDArray[np.float64]:
        """Return the three numbers that ``query`` finds for each account, shape (3, accounts).

        An account without a row in the ledger has zeros.
        """
        found = {}
        names = texts(accounts)
        for start in range(0, len(names), 500):
            some = names[start : start + 500]
            marks = ",".join("?" * len(some))
            rows = connection.execute(f"{query} AND user IN ({marks}) {after}", [*given, *some])
            found.update({user: numbers for user, *numbers in rows})
        return np.array([found.get(name, (0.0, 0.0, 0.0)) for name in names]).reshape(-1, 3).T

    def _can_pay(
        self,
        connection: sqlite3.Connection,
        accounts: Accounts,
        cost: Cost,
        policy: PrivacyPolicy,
        study: Study | None,
    ) -> Allowed:
        if study is not None and study_book.is_over(connection, study):
            return np.zeros(len(accounts), bool)
        limits = self._limits(connection, accounts, policy, study)
        return can_pay(limits, self._used(connection, accounts, cost), cost)

    def _limits(
        self,
        connection: sqlite3.Connection,
        accounts: Accounts,
        policy: PrivacyPolicy,
        study: Study | None,
    ) -> list[Limit]:
        columns = partial(self._columns, connection, accounts)
        spent = columns("SELECT user, epsilon, delta, alone FROM spent WHERE 1")
        for_life = in_study = None
        if study is not None:
            in_study = columns(study_book.SPENT, study.id, after="GROUP BY user")
        if policy.period is not None:
            query = "SELECT user, SUM(epsilon), 0, 0 FROM charge WHERE 1"
            for_life = columns(query, after="GROUP BY user")[0]
        return limits_of(policy, spent, for_life, study, in_study)

    def _used(
        self, connection: sqlite3.Connection, accounts: Accounts, cost: Cost
    ) -> NDArray[np.int64]:
        query = "SELECT user, used, 0, 0 FROM plan WHERE plan = ?"
        found = self._columns(connection, accounts, query, cost.plan)
        return np.asarray(found[0], np.int64)

    def claim(self, digest: str, count: int) -> Claim | None:
        """Return the stored claim of the query with this digest; None if the query is new."""
        with self.open() as connection:
            return _claim(connection, digest, count)

    def now(self) -> float:
        """Return the latest time that the clock has shown, by which studies end; record it."""
        with self.transaction() as connection:
            return latest(connection, time.time())

    def is_over(self, study: Study) -> bool:
        """Return True if a study has ended, by the latest time, or if its steps are used."""
        with self.transaction() as connection:
            return study_book.is_over(connection, study)

    def affordable(
        self, accounts: Accounts, cost: Cost, policy: PrivacyPolicy, study: Study | None = None
    ) -> Allowed:
        """Return a mask of the ``accounts`` that can still pay ``cost`` under policy and study."""
        only_read = policy.period is None and study is None  # otherwise the time is recorded
        with self.open() if only_read else self.transaction() as connection:
            self._begin_period(connection, policy)
            return self._can_pay(connection, accounts, cost, policy, study)

    def limits(
        self, accounts: Accounts, policy: PrivacyPolicy, study: Study | None = None
    ) -> list[Limit]:
        """Return the limits of a policy and a study, each with what every account has spent.

        They show which limit is the reason if users cannot pay.
        """
        with self.transaction() as connection:
            self._begin_period(connection, policy)
            return self._limits(connection, accounts, policy, study)

    @staticmethod
    def _begin_period(connection: sqlite3.Connection, policy: PrivacyPolicy) -> None:
        """Renew the budgets of all users if a period is over."""
        if policy.period is not None and begins_period(connection, policy.period, time.time()):
            renew(connection, spenders(connection))

    def reserve(
        self,
        entry: Entry,
        accounts: Accounts,
        cost: Cost,
        policy: PrivacyPolicy,
        series: PermanentSeries | None = None,
        study: Study | None = None,
    ) -> Claim:
        """Debit the users who can pay, in one transaction on disk.

        If the query is on the ledger already, this debits no user and returns the first claim. If
        no user can pay, this writes nothing.

        Parameters
        ----------
        accounts : ndarray
            The addressed users: the same users in the same order for each repetition of the query.
        series : PermanentSeries, optional
            The series that the answer belongs to. The transaction then also draws and stores the
            secrets of the paying users, and raises LedgerError like
            :func:`~.ledger_file.series_keys`.
        study : Study, optional
            The approved study that pays. If it has ended, or if its steps are used, no user can
            pay. If it ends after users have paid for a query and before the answer is computed, no
            user answers.
        """
        with self.transaction() as connection:
            self._begin_period(connection, policy)
            claim = _claim(connection, entry.digest, len(accounts))
            new = claim is None
            if claim is None:
                claim = Claim(self._can_pay(connection, accounts, cost, policy, study))
            elif claim.reply is None and study and study_book.has_ended(connection, study):
                claim = Claim(np.zeros(len(accounts), bool))  # paid, and not computed in time
            if claim.reply is not None or not claim.users.any():
                return claim
            claim, paying = claim.with_attempt(), 0
            if new:
                names = np.asarray(accounts)[claim.users]
                if series is not None:
                    coins = [c for c, able in zip(series.coins, claim.users, strict=True) if able]
                    series_keys(connection, texts(names), series.name, coins)
                paying = self._debit(connection, entry, names, cost, policy, study)
            connection.execute(
                "UPDATE reply SET content = ? WHERE digest = ?", (claim.to_bytes(), entry.digest)
            )
        # Read the file again, as the next process will: without the entry, no answer is computed.
        if self.claim(entry.digest, len(accounts)) is None:
            raise LedgerError("The ledger does not hold what was just written to it.")
        if new:
            logging.getLogger(__name__).info(
                "%d of %d users paid epsilon %g, delta %g.",
                *(paying, np.count_nonzero(claim.users), cost.epsilon, cost.delta),
            )
        return claim

    def _debit(
        self,
        connection: sqlite3.Connection,
        entry: Entry,
        accounts: Accounts,
        cost: Cost,
        policy: PrivacyPolicy,
        study: Study | None,
    ) -> int:
        """Book a new answer and its cost; return how many of the answering users pay for it."""
        _check_unit(connection, policy.unit)
        connection.execute("INSERT OR REPLACE INTO fact VALUES ('unit', ?)", (policy.unit,))
        paying = texts(accounts[self._used(connection, accounts, cost) == 0])
        connection.executemany(
            "INSERT INTO spent (user, epsilon, delta, alone) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (user) DO UPDATE SET epsilon = epsilon + excluded.epsilon, "
            "delta = delta + excluded.delta, alone = alone + excluded.alone",
            [(name, *cost.numbers) for name in paying],
        )
        if cost.plan is not None:
            connection.executemany(
                "INSERT INTO plan VALUES (?, ?, ?) ON CONFLICT (user, plan) DO UPDATE SET "
                "used = used + excluded.used",
                [(name, cost.plan, cost.weight) for name in texts(accounts)],
            )
        number = connection.execute(
            "INSERT INTO reply (digest, run, statistic, mechanism) VALUES (?, ?, ?, ?)",
            # The run's number is stored as text: it is unsigned, SQLite's integers are signed.
            (entry.digest, str(entry.run_id), entry.statistic, entry.mechanism),
        ).lastrowid
        connection.executemany(
            "INSERT INTO charge (user, reply, epsilon, delta, alone) VALUES (?, ?, ?, ?, ?)",
            [(name, number, *cost.numbers) for name in paying],
        )
        if study is not None:
            study_book.note(connection, number, study)
        return len(paying)

    def end_plan(self, accounts: Accounts, cost: Cost, epsilon_after: EpsilonAfter) -> None:
        """Give users back the epsilon of a plan's unsent reports, in one transaction on disk.

        A user who has paid ``cost`` and sent some of the plan's reports sends no more of them.
        ``epsilon_after`` is a function from the number of reports to their epsilon. It has to hold
        for a number that the reports themselves may have decided. The charge stays in the book. The
        epsilon that is given back is booked as a renewal.
        """
        # It may take a minute, for which other processes would not wait: it is called before.
        epsilon_after = cache(epsilon_after)
        with self.open() as connection:
            refunds(self._used(connection, accounts, cost), cost, epsilon_after)
        with self.transaction() as connection:
            used = self._used(connection, accounts, cost)
            back = refunds(used, cost, epsilon_after)
            named = zip(texts(accounts), back.tolist(), strict=True)
            given = [(epsilon, name) for name, epsilon in named if epsilon > 0]
            connection.executemany(
                "INSERT INTO renewal (epsilon, user, delta) VALUES (?, ?, 0)", given
            )
            connection.executemany(
                "UPDATE spent SET epsilon = epsilon - ?1, alone = alone - ?1 WHERE user = ?2", given
            )
            connection.executemany(
                "UPDATE plan SET used = ? WHERE plan = ? AND user = ?",
                [(cost.steps, cost.plan, name) for name in texts(accounts[is_open(used, cost)])],
            )

    def commit(self, digest: bytes, plan: str, peers: Peers) -> Commit:
        """Return the node's commit to a shared sum, see :func:`~.one_time_keys.draw`.

        The one-time key is on disk when this returns.
        """
        with self.transaction() as connection:
            return one_time_keys.draw(connection, digest, plan, peers, time.time())

    def one_time_key(self, digest: bytes, peers: Peers) -> OneTimeKey | None:
        """Return a stored commit with its secret key; None if there is none, or it is too old."""
        with self.transaction() as connection:
            return one_time_keys.find(connection, digest, time.time())

    def fulfil(self, digest: str, reply: bytes, closes: bytes | None = None) -> bytes:
        """Store the reply to a reserved query on disk, and return the reply that is stored.

        If another process has stored its reply first, that reply is returned. If the stored reply
        was deleted, the result is empty. The same transaction deletes the one-time key of the
        commit with the digest ``closes``. Raise LedgerError if that key was already deleted, since
        another answer may have been masked with it.
        """
        with self.transaction() as connection:
            if closes is not None:
                _close(connection, closes)
            connection.execute(
                "UPDATE reply SET content = ? WHERE digest = ? AND substr(content, 1, ?) = ?",
                (reply, digest, len(_RESERVED), _RESERVED),
            )
        claim = self.claim(digest, 0)
        if claim is None or claim.reply is None:
            raise LedgerError("The ledger does not hold what was just written to it.")
        return claim.reply

    def rehearse(self, entry: Entry, reply: bytes, closes: bytes) -> None:
        """Store a node's masked sum in a rehearsal, and delete the one-time key of its masks.

        A rehearsal is about no data, so that no user pays. The digest of the commit is ``closes``.
        Raise LedgerError if the one-time key was already deleted, since another answer may have
        been masked with it.
        """
        with self.transaction() as connection:
            _close(connection, closes)
            connection.execute(
                "INSERT INTO reply (digest, run, statistic, mechanism, content) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET "
                "content = excluded.content",
                (entry.digest, str(entry.run_id), entry.statistic, entry.mechanism, reply),
            )

    def numbers(self, accounts: Accounts) -> Words:
        """Return each user's public number, below 2**63, which never changes on this ledger.

        Series of collections and arms of experiments know users by it. The number is a hash of the
        user's name. The key of the hash is the identity that the ledger drew when it was made, so
        that the number does not reveal the name.
        """
        with self.transaction() as connection:  # upgrades a ledger without identity
            key = str(fact(connection, "identity")).encode()
        hashes = [blake2b(name.encode(), digest_size=8, key=key) for name in texts(accounts)]
        whole = b"".join(each.digest() for each in hashes)
        return np.frombuffer(whole, "<u8").astype(np.uint64) >> np.uint64(1)

    def series_keys(self, accounts: Accounts, series: PermanentSeries) -> list[bytes]:
        """Return each account's secret for a series of permanent answers, in the accounts' order.

        A secret determines the noise of a user's permanent answers. All accounts must have paid
        for the series. Raise LedgerError like :func:`~.ledger_file.series_keys`.
        """
        with self.open() as connection:  # reads the file, as the next process will
            return series_keys(connection, texts(accounts), series.name, series.coins)

    def spent(self) -> dict[str, Cost]:
        """Return each user's spending since its budget was last renewed."""
        with self.open() as connection:
            rows = connection.execute(
                f"SELECT user, epsilon, delta, {study_book.alone(connection)} FROM spent "
                "ORDER BY user"
            )
            # Most users have spent the same, and the check of a cost takes longer than its row.
            cost = cache(study_book.spending)
            return {user: cost(*numbers) for user, *numbers in rows}


def _claim(connection: sqlite3.Connection, digest: str, count: int) -> Claim | None:
    query = "SELECT content FROM reply WHERE digest = ?"
    row = connection.execute(query, (digest,)).fetchone()
    return None if row is None else Claim.of(bytes(row[0] or b""), count)


def _close(connection: sqlite3.Connection, digest: bytes) -> None:
    """Delete the one-time key that masks the answer to a query, so that it masks no second one.

    Raise LedgerError if the key was already deleted.
    """
    if not one_time_keys.close(connection, digest):
        raise LedgerError("The one-time key of this answer was used or replaced, or is too old.")


def spenders(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the users who have spent some budget since it was last renewed."""
    return [user for user, _ in connection.execute("SELECT user, epsilon FROM spent")]


def renew(connection: sqlite3.Connection, users: Sequence[str]) -> None:
    """Renew the whole budget of users, and record the renewal."""
    for user in users:
        connection.execute(
            "INSERT INTO renewal (user, epsilon, delta) "
            "SELECT user, epsilon, delta FROM spent WHERE user = ?",
            (user,),
        )
        connection.execute("DELETE FROM spent WHERE user = ?", (user,))
        # The rest of a plan was paid in the period that ends: the user has to pay for it again.
        connection.execute("DELETE FROM plan WHERE user = ?", (user,))


def texts(accounts: Accounts) -> list[str]:
    """Return accounts as texts for a ledger file.

    Raise LedgerError if one is empty, or cannot be encoded as UTF-8.
    """
    names = [str(account) for account in accounts]
    if not all(names):
        raise LedgerError("Expected ids that are not empty, got an empty id.")
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        wrong = next(name for name in names if any("\ud800" <= sign <= "\udfff" for sign in name))
        raise LedgerError(f"Expected ids of Unicode characters, got {wrong!r}.") from error
    return names


def _check_unit(connection: sqlite3.Connection, unit: str) -> None:
    """Raise LedgerError if costs with this privacy unit do not belong on a ledger."""
    if unit == "user" and _is_by_record(connection):
        raise LedgerError(
            'What is spent on this ledger is about single records (unit="record"), and says '
            'nothing about what users have spent: unit="user" needs a separate ledger.'
        )
    # Users pay for a training on their records by this mechanism.
    users = "SELECT 1 FROM reply WHERE mechanism = 'UserDpSgd' LIMIT 1"
    if unit == "record" and connection.execute(users).fetchone():
        raise LedgerError(
            "Users have spent budget on this ledger for training on their records. The records of "
            'a silo have another account: unit="record" needs a separate ledger.'
        )


def _is_by_record(connection: sqlite3.Connection) -> bool:
    """Return True if the costs on a ledger are about single records.

    A ledger that does not state its unit has such costs if it holds a plan, or an answer of a
    mechanism for records.
    """
    if (unit := fact(connection, "unit")) is not None:
        return unit == "record"
    entries = "SELECT 1 FROM plan UNION ALL SELECT 1 FROM reply WHERE mechanism GLOB 'Record*'"
    return connection.execute(entries).fetchone() is not None
